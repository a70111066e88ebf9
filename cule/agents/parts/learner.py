"""The interface between a learner and what runs it, and the state that all learners have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from cule.agents.parts.config import ACTING_SEED, AgentConfig
from cule.agents.parts.distributed import (
    broadcast_module,
    check_same_on_all_ranks,
    rank,
    world_size,
)
from cule.agents.parts.graphs import copied_scalars
from cule.agents.parts.optim import make_capturable
from cule.agents.parts.rollout import count_frames
from cule.agents.parts.setup import Network, Setup
from cule.errors import DivergedError, StateVersionError, warn

if TYPE_CHECKING:
    from cule.agents.parts.envs import AnyEnv
    from cule.agents.run.evaluation import Evaluation

AnyLearner = TypeVar("AnyLearner", bound="Learner")

#: Scalars that an update reports, on the device or as numbers.
Metrics: TypeAlias = Mapping[str, Tensor | float]


@dataclass(frozen=True)
class Progress:
    """State of training after a round of collecting and learning."""

    steps: int
    """Agent steps so far, summed over all environments and processes."""

    updates: int
    """Updates of the optimizer so far."""

    metrics: Metrics
    """Metrics of the last update: scalars on the device, to be read when needed."""

    episodes: Tensor
    """Episodes that ended in this process since the last progress; float64 scalar on the device."""

    episode_return: Tensor
    """Their mean return, not clipped; NaN without an episode."""

    episode_length: Tensor
    """Their mean length in steps; NaN without an episode."""


class Learner(Protocol):
    """Interface of a learner to runs, evaluations and checkpoints; each algorithm implements it.

    The methods but for `train` and `act` follow from the rest.

    Attributes:
        config: The options.
        setup: Devices, environments, random streams and statistics.
        device: Device of the network.
        network: The network that it trains.
        optimizer: The optimizer of the network.
        steps: Agent steps so far, summed over all environments and processes.
        updates: Updates of the optimizer so far.
        metrics: Metrics of the last update.
        has_begun: Whether the environments and the buffer are in use.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[AgentConfig]]
    config: Any  # the options of the algorithm
    setup: Setup
    device: torch.device
    network: nn.Module
    optimizer: torch.optim.Optimizer
    steps: int
    updates: int
    metrics: Metrics
    has_begun: bool

    def begin(self, frames: Tensor | None = None) -> None:
        """Start the buffer or memory, unless the run has begun or was resumed.

        By default the environments are reset; otherwise `frames` are their first ones.
        """
        learner: Any = self  # with a buffer or memory, and what else algorithms have
        if learner.has_begun:
            return
        frames = learner.setup.reset(learner.steps) if frames is None else frames
        if hasattr(learner, "make_buffer"):
            learner.buffer = learner.make_buffer()
            learner.buffer.start(frames)
            count_frames(learner.network, frames)
        else:
            learner.replay = learner.make_replay()
            learner.replay.start(frames)
        learner.has_begun = True

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train, and yield after every round.

        Args:
            steps: Agent steps to stop at, counted from the start; by default `total_steps`.

        Yields:
            The progress so far. If you stop iterating, training stops; another call resumes it.
        """

    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose actions for evaluation.

        Args:
            obs: uint8 ``[n, *obs_shape]``.
            generator: Source of randomness.
            greedy: Choose the best actions, without randomness.

        Returns:
            Actions for the environment; ``[n]`` or ``[n, 3]``.
        """

    def predict(self, obs: Any, *, greedy: bool = False) -> Any:
        """Choose actions for observations as an environment gives them.

        Args:
            obs: Array or tensor, ``[n, *obs_shape]``, or ``obs_shape`` for a single observation.
            greedy: Choose the best actions, without randomness.

        Returns:
            Actions for `step`, ``[n]`` or ``[n, 3]``, or those of the single observation: an array
            for an array, a tensor on the same device for a tensor.

        Raises:
            InvalidArgumentError: Observations of another shape or dtype.
        """
        given = obs if isinstance(obs, Tensor) else torch.as_tensor(obs)
        is_single = given.shape == self.setup.obs_shape
        batch = (given[None] if is_single else given).to(self.device)
        actions = self.act(batch, self.setup.prediction_generator, greedy=greedy)
        actions = (actions[0] if is_single else actions).to(given.device)
        return actions if isinstance(obs, Tensor) else actions.numpy()

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from.

        Those are the network, optimizer, counters, random streams and snapshots of the
        environments; and as `extra` what the algorithm has of these: the buffer or memory, units
        of values, target network and actor.

        Args:
            replay: Include the replay memory.
        """
        learner: Any = self  # with a buffer or memory, and what else algorithms have
        setup, has_begun = learner.setup, learner.has_begun
        extra: dict[str, Any] = {}
        if hasattr(learner, "value_scale"):
            extra["value_scale"] = learner.value_scale.state_dict()
        if hasattr(learner, "credit"):
            extra["target"] = learner.target.state_dict()
            extra["pending_samples"] = learner.credit.pending
        if hasattr(learner, "actor_errors"):
            extra |= {"actor": learner.actor.state_dict(), "acted_steps": learner.acted_steps}
            extra["actor_errors"] = learner.actor_errors.state()
        for name, is_wanted in (("buffer", True), ("replay", replay)):
            if has_begun and is_wanted and hasattr(learner, name):
                extra[name] = getattr(learner, name).state_dict()
        return {
            "steps": learner.steps,
            "updates": learner.updates,
            "network": learner.network.state_dict(),
            "optimizer": learner.optimizer.state_dict(),
            "generator": setup.generator.get_state(),
            "statistics": setup.statistics.sums,
            "metrics": dict(learner.metrics),
            "world_size": world_size(),
            "has_begun": has_begun,
            "env": torch.as_tensor(setup.env.get_state()) if has_begun else None,
            "extra": extra,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer or memory, new episodes begin."""
        learner: Any = self  # with a buffer or memory, and what else algorithms have
        extra = state["extra"]
        kept = [name for name in ("buffer", "replay") if name in extra]
        if hasattr(learner, "value_scale"):
            learner.value_scale.load_state_dict(extra["value_scale"])
        if hasattr(learner, "actor_errors"):
            learner.actor.load_state_dict(extra["actor"])
            if kept:
                learner.acted_steps = extra["acted_steps"]
                learner.actor_errors.load(extra["actor_errors"], learner.device)
        _load_common(learner, state)
        if hasattr(learner, "credit"):
            learner.target.load_state_dict(extra["target"])
            learner.credit.pending = extra["pending_samples"]
        for name in kept:
            storage = learner.make_buffer() if name == "buffer" else learner.make_replay()
            setattr(learner, name, storage)
            storage.load_state_dict(extra[name])
        _resume_env(learner, state, has_buffer=bool(kept))

    def save(self, path: str | os.PathLike[str], *, replay: bool = True) -> None:
        """Write a checkpoint. The file is either complete or absent.

        Args:
            path: Target. Processes of rank R > 0 write ``NAME.rankR.SUFFIX`` next to it.
            replay: Include the replay memory of algorithms that have one. Without it a resumed run
                fills a new memory first.

        Raises:
            OSError: The file cannot be written.
        """
        from cule.agents.run.checkpoint import save

        save(self, path, replay=replay)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the network alone, as ``NAME.safetensors``. The file is complete or absent.

        Raises:
            OSError: The file cannot be written.
            MissingPackageError: safetensors is not installed.
        """
        from cule.agents.run.weights import save_weights

        save_weights(self, path)

    @classmethod
    def load(
        cls: type[AnyLearner],
        path: str | os.PathLike[str],
        env: AnyEnv | None = None,
        *,
        network: Network | None = None,
        **changes: object,
    ) -> AnyLearner:
        """Make an agent that continues from a checkpoint.

        Args:
            path: A checkpoint.
            env: As for the constructor.
            network: As for the constructor; it gets the weights of the checkpoint.
            changes: Options that may differ: total_steps, devices and threads.

        Raises:
            FileNotFoundError: The file does not exist.
            CheckpointError: The file is not a checkpoint, is damaged, or is of another algorithm.
        """
        from cule.agents.run.checkpoint import load

        return load(cls, path, env, network=network, **changes)

    def check_finite(self, last_checkpoint: str = "none yet") -> None:
        """Require that losses and weights are finite. Waits for the device.

        Raises:
            DivergedError: They are not; the message names the last good checkpoint.
        """
        weights = torch.stack([torch.isfinite(p).all() for p in self.network.parameters()])
        if not bool(self.setup.is_finite & weights.all()):
            raise DivergedError(
                f"a loss or weight is not finite after {self.steps} steps and {self.updates} "
                f"updates; last good checkpoint: {last_checkpoint}"
            )

    def evaluate(self, **options: Any) -> Evaluation:
        """Play whole episodes; the options are those of `cule.agents.evaluate`."""
        from cule.agents.run.evaluation import evaluate

        return evaluate(self, **options)


def progress_of(learner: Learner, metrics: Metrics) -> Progress:
    """The progress so far; does not wait for the device."""
    if learner.config.cuda_graphs:  # the next replay overwrites its results
        metrics = copied_scalars(metrics)
    statistics = learner.setup.statistics
    return Progress(learner.steps, learner.updates, metrics, *statistics.new_episodes())


def _load_common(learner: Learner, state: Mapping[str, Any]) -> None:
    """Restore network, optimizer, counters and random streams.

    A state of another number of processes gives all of them the state of one.
    """
    setup, optimizer = learner.setup, learner.optimizer
    is_resized = state.get("world_size", 1) != world_size()
    learner.network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    if setup.device.type == "cpu":
        for group in optimizer.param_groups:  # may have been saved on a GPU
            group["lr"] = float(group["lr"])
            for name in ("capturable", "fused"):
                if name in group:
                    group[name] = optimizer.defaults[name]
    if learner.config.cuda_graphs:
        make_capturable(optimizer, setup.device)
    setup.graphs.forget()
    setup.generator.manual_seed(setup.seed_of(ACTING_SEED) + state["steps"])
    if not is_resized:
        # RuntimeError: the state of a generator of another type of device.
        with contextlib.suppress(RuntimeError):
            setup.generator.set_state(state["generator"])
    if rank() == 0 or not is_resized:
        setup.statistics.load(state["statistics"])
    saved = state.get("metrics", {})
    learner.metrics = {k: torch.as_tensor(v, device=setup.device) for k, v in saved.items()}
    learner.steps, learner.updates = state["steps"], state["updates"]
    check_same_on_all_ranks("steps and updates of the checkpoint", (learner.steps, learner.updates))
    broadcast_module(learner.network)


def _resume_env(learner: Learner, state: Mapping[str, Any], *, has_buffer: bool) -> None:
    """Restore the environments.

    Without a buffer, without states, or with states of another version of their format, new
    episodes begin.
    """
    has_states = getattr(learner.setup.env, "has_states", True)
    learner.has_begun = state["has_begun"] and has_buffer and has_states
    if learner.has_begun:
        try:
            learner.setup.env.set_state(state["env"])
        except StateVersionError as error:
            warn(f"new episodes begin, because the environments cannot continue: {error}")
            learner.has_begun = False
