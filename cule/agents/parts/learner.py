"""The interface between a learner and what runs it, and the state that all learners have."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from cule.agents.parts.config import AgentConfig
from cule.agents.parts.graphs import copied_scalars
from cule.agents.parts.setup import Network, Setup
from cule.errors import DivergedError, InvalidArgumentError, shown
from cule.option_fields import config_from
from cule.replay.options import check_bool

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

    `predict`, `save`, `load`, `evaluate` and `check_finite` follow from the rest.

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

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train, and yield after every round.

        Args:
            steps: Agent steps to stop at, counted from the start; by default `total_steps`.

        Yields:
            The progress so far. If you stop iterating, training stops; another call resumes it.

        Raises:
            InvalidArgumentError: `steps` is not a number.
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

    def new_memory(self, num_envs: int) -> Tensor | None:
        """Memory of a recurrent network for environments in which episodes begin.

        The `act` of such a learner takes it as its keyword `memory`, and includes what it sees.

        Returns:
            float32 ``[num_envs, size]``, zeros; None of networks without memory.
        """
        return None

    def predict(self, obs: Any, *, greedy: bool = False, memory: Tensor | None = None) -> Any:
        """Choose actions for observations as an environment gives them.

        Args:
            obs: Array or tensor, ``[n, *obs_shape]``, or ``obs_shape`` for a single observation.
            greedy: Choose the best actions, without randomness.
            memory: Of a recurrent network: what `new_memory` made for these n environments, which
                afterwards includes `obs`; set rows to zero where episodes begin. None: all begin.

        Returns:
            Actions for `step`, ``[n]`` or ``[n, 3]``, or those of the single observation: an array
            for an array, a tensor on the same device for a tensor.

        Raises:
            InvalidArgumentError: Observations of another shape or dtype, `greedy` that is not a
                bool, or a memory of another shape or of a network that has none.
        """
        check_bool("greedy", greedy)
        given = self.setup.tensor_of(obs)
        is_single = given.shape == self.setup.obs_shape
        batch = self.setup.check_obs((given[None] if is_single else given).to(self.device))
        options: dict[str, Any] = {"greedy": greedy}
        if memory is not None:
            options["memory"] = _checked_memory(memory, self.new_memory(len(batch)))
        was_training = self.network.training
        self.network.eval()
        try:
            actions = self.act(batch, self.setup.prediction_generator, **options)
        finally:
            self.network.train(was_training)
        actions = (actions[0] if is_single else actions).to(given.device)
        return actions if isinstance(obs, Tensor) else actions.numpy()

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from; `replay`: with a replay memory."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`.

        Raises:
            InvalidArgumentError: Not a `state_dict` of a learner.
        """

    def save(self, path: str | os.PathLike[str], *, replay: bool = True) -> None:
        """Write a checkpoint. The file is either complete or absent.

        Args:
            path: Target. Processes of rank R > 0 write ``NAME.rankR.SUFFIX`` next to it.
            replay: Include the replay memory of algorithms that have one. Without it a resumed run
                fills a new memory first.

        Raises:
            OSError: The file cannot be written.
        """
        from cule.agents.run.checkpoint import path_of_rank, policy_state, write_checkpoint

        state = {**policy_state(self), **self.state_dict(replay=replay)}
        write_checkpoint(path_of_rank(path), state)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the network alone, as ``NAME.safetensors``. The file is complete or absent.

        Raises:
            OSError: The file cannot be written.
            MissingPackageError: safetensors is not installed.
        """
        from cule.agents.run.checkpoint import policy_state
        from cule.agents.run.weights import write_weights

        write_weights(path, policy_state(self))

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
            UnknownGameError, RomNotFoundError, RulesError: As for an environment of its game.
        """
        from cule.agents.run.checkpoint import load_state, read_of

        content = read_of(cls.name, path)
        make: Any = cls  # a protocol does not say how it is made
        config = config_from(cls.config_class, content["config"] | changes)
        learner: AnyLearner = make(config, env, network=network)
        load_state(learner, content)
        return learner

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


def _checked_memory(memory: Tensor, blank: Tensor | None) -> Tensor:
    """The memory, or InvalidArgumentError unless it is like a blank one."""
    is_tensor = isinstance(memory, Tensor)
    given = (
        f"a {memory.dtype} tensor of shape {tuple(memory.shape)}" if is_tensor else shown(memory)
    )
    if blank is None:
        raise InvalidArgumentError(f"memory is {given}; it must be None: the network has none")
    if not is_tensor or (memory.shape, memory.dtype) != (blank.shape, blank.dtype):
        raise InvalidArgumentError(
            f"memory is {given}; it must be a {blank.dtype} tensor of shape {tuple(blank.shape)}, "
            "from new_memory"
        )
    return memory


def progress_of(learner: Learner, metrics: Metrics) -> Progress:
    """The progress so far; does not wait for the device."""
    if learner.config.cuda_graphs:  # the next replay overwrites its results
        metrics = copied_scalars(metrics)
    statistics = learner.setup.statistics
    return Progress(learner.steps, learner.updates, metrics, *statistics.new_episodes())
