"""V-trace whose network remembers, with an LSTM, as IMPALA's (Espeholt et al. 2018).

`RecurrentVTrace` is `VTrace` with the memory of `parts.remembering`. An update reads the T steps of
its batch as sequences, through which gradients flow back in time, from the memory with which the
first of them was played, up to ``T / steps_per_update`` updates before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cule.agents.parts.remembering import Remembering, check_options
from cule.agents.vtrace import VTrace, VTraceConfig
from cule.nets.recurrent import RecurrentActorCritic, Sequences
from cule.option_fields import Cells
from cule.replay import Rollout


@dataclass(frozen=True, kw_only=True)
class RecurrentVTraceConfig(VTraceConfig):
    """Options of V-trace with an LSTM; the defaults are those of `VTraceConfig` and IMPALA's LSTM.

    `forward_batch` bounds the statistics of pixels alone: sequences are read at once.
    """

    stack_num: int = 1

    memory_size: Cells = 256
    """Cells of the LSTM."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        check_options(self)


class RecurrentVTrace(Remembering, VTrace):
    """V-trace with an LSTM; see docs/agents/vtrace.md.

    Example:
        >>> from cule.agents import RecurrentVTrace, RecurrentVTraceConfig
        >>> config = RecurrentVTraceConfig(game="pong", num_envs=8, num_batches=4, num_steps=4)
        >>> [progress.updates for progress in RecurrentVTrace(config).train(steps=48)]
        [1, 2, 3]
    """

    name: ClassVar[str] = "vtrace-lstm"
    config_class: ClassVar[type[RecurrentVTraceConfig]] = RecurrentVTraceConfig
    network: RecurrentActorCritic
    config: RecurrentVTraceConfig

    def outputs_of(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """Logits ``[T * n, A]``, values ``[T, n]``, and values of the following observations."""
        assert rollout.obs is not None
        obs = torch.cat([rollout.obs, rollout.bootstrap_obs.unsqueeze(0)])
        starts = rollout.extras["starts"]
        # Nothing uses the value of a newest observation with which an episode begins.
        starts = torch.cat([starts, torch.zeros_like(starts[:1])])
        with self.setup.autocast():
            logits, values = self.network(Sequences(obs, starts, rollout.extras["memory"][0]))
        values = values.view(starts.shape)
        after = self.values_after(rollout, values[:-1].detach(), lambda _: values[-1].detach())
        return logits[: rollout.rewards.numel()], values[:-1], after
