"""`Agent`, the base of all algorithms: environments, network, counters, and the steps of a loop.

The file of an algorithm holds its options, how it acts and how it learns; `train` repeats rounds of
both. An agent counts `steps` (agent steps of all environments of all processes) and `updates` (of
the optimizer); every schedule is a function of these and never of the clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cule.agents.algorithms.config import AgentConfig
from cule.agents.training import evaluation, saving
from cule.agents.training.checkpoint import Metrics
from cule.agents.training.contract import check_network
from cule.agents.training.devices import configure_torch, is_same_device, parse_device
from cule.agents.training.distributed import (
    average_gradients,
    broadcast_module,
    collectives_can_be_captured,
    join_world,
    rank,
    world_size,
)
from cule.agents.training.environment import (
    DiscreteSpace,
    EpisodeStatistics,
    FrameEnv,
    StorageKeywords,
    make_env,
    mode_of,
    newest_frames,
    obs_dtype,
    obs_shape,
    split_obs_shape,
)
from cule.agents.training.graphs import (
    CapturedCall,
    copied_scalars,
    make_capturable,
    step_unless,
)
from cule.agents.training.options import config_from
from cule.agents.training.phase_timer import PhaseTimer
from cule.agents.training.seeds import ACTING_SEED, RANK_SEED_STRIDE, REPLAY_SEED, WEIGHTS_SEED
from cule.agents.training.sources import AnyEnv, as_frame_env
from cule.envs import FrameStep
from cule.errors import CheckpointError, DivergedError, InvalidArgumentError
from cule.kernels import BLOCK_SIDE
from cule.nets import PixelStatistics, read_floats, reads_blocks

AnyAgent = TypeVar("AnyAgent", bound="Agent")
Result = TypeVar("Result")

#: A network, or a function (or class) that makes it from the shape of an observation and the number
#: of actions.
Network: TypeAlias = nn.Module | Callable[[tuple[int, ...], int], nn.Module]


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


class Agent(ABC):
    """Base of the algorithms.

    Attributes:
        config: The options.
        env: The environments it learns from.
        network: The network it trains.
        optimizer: The optimizer of the network.
        device: Device of the network.
        env_device: Device of the environments.
        steps: Agent steps so far, summed over all environments and processes.
        updates: Updates so far.
        generator: Random numbers of acting and learning, on the device.
        statistics: Statistics of the episodes that have ended.
        is_finite: Whether all losses so far were finite; bool scalar on the device.
        metrics: Metrics of the last update.
        phase_timer: Times the phases of rounds.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[AgentConfig]]
    eval_epsilon: ClassVar[float] = 0.0

    network: nn.Module
    optimizer: torch.optim.Optimizer
    learn_once: Callable[[], Metrics]

    save = saving.save
    save_weights = saving.save_weights
    load_state = saving.load_state
    load_weights = saving.load_weights
    evaluate = evaluation.evaluate

    def __init__(
        self, config: AgentConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make the environments and the network.

        Args:
            config: Options of this algorithm.
            env: Environments to use instead of those of the config: an `AtariVectorEnv` with
                tensors as results and SameStep or NextStep autoreset, any Gymnasium vector
                environment, or one of your own (docs/agents/own_networks.md).
            network: Network to train instead of that of the config: a module, which is used and
                not copied, or a function that makes it. See docs/agents/own_networks.md.

        Raises:
            InvalidArgumentError: The environments do not fit the algorithm.
            UnknownGameError, RomNotFoundError, DeviceError: As `cule.AtariVectorEnv`.
        """
        self.config = config
        self.given_network = network
        self.device = join_world(parse_device("device", config.device))
        self.env_device = parse_device("env_device", config.env_device or str(self.device))
        self._check_graphs()
        configure_torch(config)
        self.env = as_frame_env(self._default_env() if env is None else env)
        self.num_envs = self.env.num_envs
        self.obs_shape, self.obs_dtype = obs_shape(self.env), obs_dtype(self.env)
        self.autoreset_mode = mode_of(self.env)
        self.num_actions = self._count_actions()
        self.steps, self.updates = 0, 0
        self.statistics = EpisodeStatistics(self.device)
        self.is_finite = torch.ones((), dtype=torch.bool, device=self.device)
        self.generator = self.make_generator(ACTING_SEED)
        self.phase_timer = PhaseTimer(
            self.device, separates_emulation=self.shares_device or self.env_device.type == "cpu"
        )
        self.metrics: Metrics = {}
        self._has_begun = False
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed + WEIGHTS_SEED)
            self.build()
            if outputs := self.network_outputs():
                check_network(self.network, self.obs_shape, self.obs_dtype, outputs, self.device)
        broadcast_module(self.network)
        self.forward = torch.compile(self.network) if config.compile else self.network
        self._captured: list[CapturedCall[object]] = []
        if config.cuda_graphs:
            make_capturable(self.optimizer, self.device)
        self.capture()

    @classmethod
    def load(
        cls: type[AnyAgent],
        path: str | os.PathLike[str],
        env: AnyEnv | None = None,
        *,
        network: Network | None = None,
        **changes: object,
    ) -> AnyAgent:
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
        content = saving.read_own(path)
        if content.get("algorithm") != cls.name:
            raise CheckpointError(
                f"{path} is a checkpoint of {content.get('algorithm')!r}; it must be of "
                f"{cls.name!r}"
            )
        agent = cls(
            config_from(cls.config_class, content["config"] | changes), env, network=network
        )
        agent.load_state(content)
        return agent

    # --- Implemented by each algorithm ------------------------------------------------------------

    @abstractmethod
    def build(self) -> None:
        """Make `network` and `optimizer`; the weights use the global generator."""

    @abstractmethod
    def make_network(self) -> nn.Module:
        """Make the network of the config, on the CPU."""

    def new_network(self) -> nn.Module:
        """The given network, or that of the config, on the device."""
        given = self.given_network
        if given is None:
            network = self.make_network()
            if self.obs_dtype.is_floating_point:
                read_floats(network)
        elif isinstance(given, nn.Module):
            network = given
        else:
            network = given(self.obs_shape, self.num_actions)
            if not isinstance(network, nn.Module):
                raise InvalidArgumentError(
                    f"network made a {type(network).__name__}; it must make a torch.nn.Module"
                )
        return network.to(self.device)

    @property
    def pixel_statistics(self) -> PixelStatistics | None:
        """The statistics of the network, if it has any."""
        return getattr(self.network, "statistics", None)  # a network of your own has none

    def network_outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes, for one observation, of what the network must return; empty: any."""
        return {}

    @abstractmethod
    def round(self) -> None:
        """Collect steps and learn from them, once."""

    @abstractmethod
    def play_step(self) -> None:
        """Play one step of all environments into the buffer."""

    @abstractmethod
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose actions for evaluation.

        Args:
            obs: uint8 ``[n, *obs_shape]``.
            generator: Source of randomness.
            greedy: Choose the best actions, without randomness.

        Returns:
            Actions for the environment; ``[n]`` or ``[n, 3]``.
        """

    @abstractmethod
    def begin_buffer(self, frames: Tensor) -> None:
        """Make the buffer and store the first frames, ``[N, H, W]`` or ``[N, D]``."""

    @abstractmethod
    def extra_state(self, *, replay: bool) -> Mapping[str, object]:
        """State of the algorithm for a checkpoint, such as its buffer; `replay`: with a memory."""

    @abstractmethod
    def load_extra_state(self, state: Mapping[str, object]) -> bool:
        """Restore `extra_state`; return whether it has the buffer, without which episodes begin."""

    # --- Train ------------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train, and yield after every round.

        Args:
            steps: Agent steps to stop at, counted from the start; by default `total_steps`.

        Yields:
            The progress so far. If you stop iterating, training stops; another call resumes it.
        """
        stop = self.config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.round()
            yield self.progress({**self.metrics, **self.schedules()})

    def progress(self, metrics: Metrics) -> Progress:
        """The progress so far; does not wait for the device."""
        if self.config.cuda_graphs:  # the next replay overwrites its results
            metrics = copied_scalars(metrics)
        return Progress(self.steps, self.updates, metrics, *self.statistics.new_episodes())

    def schedules(self) -> Metrics:
        """Scheduled numbers, as metrics."""
        return {}

    @torch.no_grad()
    def collect(self, num_steps: int) -> None:
        """Play steps of all environments into the buffer."""
        with self.phase_timer.phase("collect"):
            for _ in range(num_steps):
                self.play_step()
        self.count_steps(num_steps)

    def begin(self) -> None:
        """Reset the environments, unless the run has begun or was resumed."""
        if not self._has_begun:
            obs, _ = self.env.reset(seed=self.env_seed())
            self.begin_buffer(newest_frames(self.env, obs).to(self.device))
            self._has_begun = True

    def step_env(self, actions: Tensor, next_frame: Tensor | None) -> FrameStep:
        """Step the environments; on the same device, write frames to `next_frame` of the buffer."""
        with self.phase_timer.phase("emulate"):
            if self.shares_device:
                return self.env.step_frames(actions, out=next_frame)
            return self.env.step_frames(actions.to(self.env_device))

    def count_steps(self, num_steps: int) -> None:
        """Count steps of all environments of all processes."""
        self.steps += num_steps * self.num_envs * world_size()

    def learn(self, loss: Tensor, skip: Tensor | None = None) -> Tensor:
        """Take one step of the optimizer, and return the global norm of the gradients.

        The caller counts `updates`, which a graph cannot. Where `skip`, a bool scalar on the
        device, is true, the step changes nothing.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        average_gradients(parameters)
        norm = nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm or float("inf"))
        if skip is None:
            self.optimizer.step()
        else:
            step_unless(skip, self.optimizer)
        self.is_finite &= torch.isfinite(loss.detach()) & torch.isfinite(norm)
        return norm

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """Autocast to bfloat16 if the config asks for it."""
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled)

    @functools.cached_property
    def shares_device(self) -> bool:
        """Whether environments and network are on the same device."""
        return is_same_device(self.env_device, self.device)

    @property
    def total_envs(self) -> int:
        """Environments of all processes."""
        return self.num_envs * world_size()

    @property
    def learning_rate(self) -> float:
        """The initial learning rate, scaled with the number of environments by `lr_scale`."""
        share = self.total_envs / 16  # CuLE's reference is 16 environments
        scale = {"none": 1.0, "sqrt": share**0.5, "linear": share}[self.config.lr_scale]
        return float(self.config.learning_rate * scale)

    def seed_of(self, offset: int) -> int:
        """The seed of this process for the stream with an offset."""
        return self.config.seed + RANK_SEED_STRIDE * rank() + offset

    def make_generator(self, offset: int) -> torch.Generator:
        """A generator on the device for the stream with an offset."""
        return torch.Generator(device=self.device).manual_seed(self.seed_of(offset))

    def env_seed(self) -> int:
        """The seed for environments that begin now.

        It depends on `steps`, so that a run resumed without its buffer sees new episodes.
        """
        return self.seed_of(self.steps) % 2**30  # environments count up from it, below 2^31

    def of_own_envs(self, values: Tensor) -> Tensor:
        """The part of values ``[N of all processes]`` for the environments of this process."""
        first = rank() * self.num_envs
        return values[first : first + self.num_envs].to(self.device)

    def storage_options(self) -> StorageKeywords:
        """Options of the buffer of this process."""
        config = self.config
        stack, frame_shape = split_obs_shape(self.env)
        return {
            "num_envs": self.num_envs,
            "obs_shape": frame_shape,
            "obs_dtype": self.obs_dtype,
            "autoreset_mode": self.autoreset_mode,
            "stack": stack,
            "pixel_blocks": self.reads_blocks,
            "gamma": config.gamma,
            "reward_clipping": config.reward_rule,
            "terminal_on_life_loss": config.episodic_life,
            "max_episode_steps": -(-config.max_num_frames_per_episode // config.frameskip),
            "device": self.device,
            "seed": self.seed_of(REPLAY_SEED),
        }

    @property
    def reads_blocks(self) -> bool:
        """Whether the buffer gathers observations as the first convolution reads them.

        That saves passes over memory on a GPU, where the network computes in bfloat16 anyway.
        """
        rows, columns = self.obs_shape[-2:] if len(self.obs_shape) == 3 else (1, 1)
        return (
            self.device.type == "cuda"
            and self.config.precision == "bf16"
            and self.obs_dtype == torch.uint8
            and rows % BLOCK_SIDE == columns % BLOCK_SIDE == 0
            and reads_blocks(self.network)
        )

    def gauges(self) -> dict[str, float]:
        """Numbers of the current state for a row of progress. Waits for the device."""
        return {}

    def check_finite(self, last_checkpoint: str = "none yet") -> None:
        """Require that losses and weights are finite. Waits for the device.

        Raises:
            DivergedError: They are not; the message names the last good checkpoint.
        """
        weights = torch.stack([torch.isfinite(p).all() for p in self.network.parameters()])
        if not bool(self.is_finite & weights.all()):
            raise DivergedError(
                f"a loss or weight is not finite after {self.steps} steps and {self.updates} "
                f"updates; last good checkpoint: {last_checkpoint}"
            )

    # --- CUDA graphs ------------------------------------------------------------------------------

    @abstractmethod
    def _learn_once(self) -> Metrics:
        """Draw samples, learn from them, and return metrics; decides nothing on the host."""

    @property
    @abstractmethod
    def sampling_generator(self) -> torch.Generator:
        """The generator that samples are drawn with."""

    def capture(self) -> None:
        """Wrap the steps of acting and learning in `captured`."""
        self.learn_once = self.captured(self._learn_once, draws=True, copies_results=False)

    def captured(
        self,
        function: Callable[..., Result],
        *,
        uses_generator: bool = True,
        draws: bool = False,
        stream: torch.cuda.Stream | None = None,
        copies_results: bool = True,
    ) -> Callable[..., Result]:
        """The function itself or, with `cuda_graphs`, a call that is replayed from CUDA graphs.

        A replay sets the offset of `generator` on the device, so only one of the graphs that replay
        concurrently may have `uses_generator`, which lets it sample; with `draws` it also draws
        with `sampling_generator`. Others as for `CapturedCall`.
        """
        if not self.config.cuda_graphs:
            return function

        def generators() -> list[torch.Generator]:
            own = [self.generator] if uses_generator else []
            return [*own, self.sampling_generator] if draws else own

        call = CapturedCall(
            function,
            self.device,
            generators,
            self._has_final_kernels,
            stream,
            copies_results=copies_results,
        )
        self._captured.append(call)
        return call

    def _has_final_kernels(self) -> bool:
        # A graph would keep the interpreter kernel while that of the game is being compiled.
        return not getattr(self.env, "is_compiling", False)

    @property
    def is_captured(self) -> bool:
        """Whether every captured call has its graph."""
        return all(call.captures for call in self._captured)

    def _check_graphs(self) -> None:
        if not self.config.cuda_graphs:
            return
        if self.device.type != "cuda":
            raise InvalidArgumentError(
                f"cuda_graphs is True and device {str(self.device)!r}; graphs need device 'cuda'"
            )
        if world_size() > 1 and not collectives_can_be_captured():
            raise InvalidArgumentError(
                f"cuda_graphs is True and {world_size()} processes communicate by "
                f"{dist.get_backend()!r}; with several processes graphs need 'nccl'"
            )

    # --- Environments -----------------------------------------------------------------------------

    def _default_env(self) -> FrameEnv:
        config = self.config
        if self.device.index is not None and not config.env_device:
            config = dataclasses.replace(config, env_device=str(self.device))
        return make_env(config)

    def _count_actions(self) -> int:
        """Number of actions; 0 where they are continuous."""
        space, continuous = self.env.single_action_space, self.config.continuous
        is_discrete = isinstance(space, DiscreteSpace)
        if is_discrete == continuous:
            kinds = {True: "discrete", False: "continuous"}
            raise InvalidArgumentError(
                f"the actions of the environment are {kinds[is_discrete]}; {self.name} with these "
                f"options needs {kinds[not is_discrete]} actions"
            )
        return int(space.n) if isinstance(space, DiscreteSpace) else 0
