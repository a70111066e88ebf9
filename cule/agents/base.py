"""What all learners have: an environment, a network, counters, checkpoints, evaluation.

An algorithm's file holds its options, its loop (`train`) and its loss; this file holds what would
be the same in each. A learner counts `steps` (agent steps of all consoles of all processes) and
`updates` (of the optimiser); every schedule is a function of these, never of the clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn

from cule import __version__
from cule.agents.checkpoint import read_checkpoint, write_checkpoint
from cule.agents.distributed import (
    RANK_SEED_STRIDE,
    average_gradients,
    broadcast_module,
    check_alike,
    join_world,
    rank,
    world_size,
)
from cule.agents.environment import (
    EpisodeStatistics,
    FrameEnv,
    check_env,
    make_env,
    newest_frames,
    obs_shape,
)
from cule.agents.errors import DivergedError
from cule.agents.graphs import CapturedCall, make_capturable, step_unless
from cule.agents.options import AgentConfig, config_from
from cule.agents.phase_timer import PhaseTimer
from cule.agents.weights import write_weights
from cule.envs import FrameStep
from cule.errors import CheckpointError, InvalidArgumentError

if TYPE_CHECKING:
    from cule.agents.evaluation import Evaluation

#: Offsets of the seeds of the generators of one process.
WEIGHTS_SEED, ACTING_SEED, REPLAY_SEED, EVALUATION_SEED = 0, 101, 202, 303

#: Options that a resumed run may change without becoming another run.
_FREE_OPTIONS = (
    *("total_steps", "device", "env_device", "kernel"),
    *("env_threads", "torch_threads"),
)

AnyAgent = TypeVar("AnyAgent", bound="Agent")
Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")


def timed(part: str) -> Callable[[Method], Method]:
    """Calls of a method of `Agent` are a part of its rounds; `PhaseTimer.part`."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with self.clock.part(part):
                return method(self, *args, **kwargs)

        return cast(Method, call)

    return decorate


@dataclass(frozen=True)
class Progress:
    """What `train` yields after every round of collecting and learning."""

    steps: int
    """Agent steps so far, of all consoles of all processes."""

    updates: int
    """Updates of the optimiser so far."""

    metrics: Mapping[str, Tensor | float]
    """Losses and the like of the last update; scalars on the device, to be read when needed."""


def _device(name: str, value: str) -> torch.device:
    try:
        return torch.device(value)
    except RuntimeError:
        raise InvalidArgumentError(
            f"{name} is {value!r}; it must be 'cpu', 'cuda' or 'cuda:<number>'"
        ) from None


def _numbered(device: torch.device) -> torch.device:
    """The device with its number; "cuda" alone is torch's current one."""
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


class Agent(ABC):
    """Base of the learners.

    Attributes:
        config: The options.
        env: The environments that it learns from.
        network: What it learns.
        optimizer: How.
        device: Where.
        env_device: Where the environments are.
        steps: Agent steps so far, of all consoles of all processes.
        updates: Updates so far.
        generator: Source of all random numbers of acting and learning, on the device.
        statistics: Sums over the episodes that have ended.
        is_finite: Whether all losses so far were finite numbers; bool scalar on the device.
        metrics: Losses and the like of the last update.
        clock: What the time of rounds goes to.
    """

    name: ClassVar[str]
    config_class: ClassVar[type[AgentConfig]]
    eval_epsilon: ClassVar[float] = 0.0

    config: Any
    network: nn.Module
    optimizer: torch.optim.Optimizer

    def __init__(self, config: Any, env: FrameEnv | None = None) -> None:
        """Make the environments and the network.

        Args:
            config: Options of this algorithm.
            env: Environments of one's own, with SameStep autoreset and tensors as results; by
                default the consoles that the config asks for.

        Raises:
            InvalidArgumentError: The environments do not fit.
            UnknownGameError, RomNotFoundError, DeviceError: As `cule.AtariVectorEnv`.
        """
        self.config = config
        self.device = join_world(_device("device", config.device))
        self.env_device = _device("env_device", config.env_device or str(self.device))
        self._check_graphs()
        self._use_precision()
        self.env: FrameEnv = self._default_env() if env is None else env
        check_env(self.env)
        self.num_envs = self.env.num_envs
        self.obs_shape = obs_shape(self.env)
        self.num_actions = self._count_actions()
        self.steps, self.updates = 0, 0
        self.statistics = EpisodeStatistics(self.device)
        self.is_finite = torch.ones((), dtype=torch.bool, device=self.device)
        self.generator = self.make_generator(ACTING_SEED)
        can_tell = self.shares_device or self.env_device.type == "cpu"
        self.clock = PhaseTimer(self.device, tells_emulation=can_tell)
        self.metrics: Mapping[str, Tensor | float] = {}
        self._has_begun = False
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed + WEIGHTS_SEED)
            self.build()
        broadcast_module(self.network)
        self.forward = torch.compile(self.network) if config.compile else self.network
        self._captured: list[CapturedCall[Any]] = []
        if config.cuda_graphs:
            make_capturable(self.optimizer, self.device)
        self.capture()

    # --- What each algorithm fills in -------------------------------------------------------------

    @abstractmethod
    def build(self) -> None:
        """Make `network`, `optimizer` and the buffer; weights come from the global generator."""

    @abstractmethod
    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Learn, and yield after every round.

        Args:
            steps: Agent steps at which to stop, counted from the start; the config's by default.

        Yields:
            Where it stands. Stopping to iterate stops training; a new call goes on from there.
        """

    @abstractmethod
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Actions for evaluation.

        Args:
            obs: uint8 ``[n, *obs_shape]``.
            generator: Source of randomness.
            greedy: The best actions, without any randomness.

        Returns:
            What the environment takes; ``[n]`` or ``[n, 3]``.
        """

    @abstractmethod
    def capture(self) -> None:
        """Put `captured` forms of the steps of acting and learning in place."""

    @abstractmethod
    def begin_buffer(self, frames: Tensor) -> None:
        """Take the first frames of the run, ``[N, H, W]`` or ``[N, D]``."""

    @abstractmethod
    def extra_state(self, *, replay: bool) -> dict[str, Any]:
        """What a checkpoint of this algorithm holds beside the common part."""

    @abstractmethod
    def load_extra_state(self, state: Mapping[str, Any]) -> bool:
        """Take `extra_state` back.

        Returns:
            Whether it is complete, so that the environments can go on where they were; otherwise
            new episodes begin.
        """

    # --- Shared steps of the loops ----------------------------------------------------------------

    def begin(self) -> None:
        """Reset the environments, unless the run has begun or was resumed."""
        if not self._has_begun:
            obs, _ = self.env.reset(seed=self.env_seed())
            self.begin_buffer(newest_frames(obs, self.obs_shape).to(self.device))
            self._has_begun = True

    @timed("emulate")
    def step_env(self, actions: Tensor, next_row: Tensor | None) -> FrameStep:
        """Step the environments.

        Args:
            actions: On the learner's device.
            next_row: Where frames go, without a copy if the environments are on the same device;
                None: to memory of their own.
        """
        if self.shares_device:
            return self.env.step_frames(actions, out=next_row)
        return self.env.step_frames(actions.to(self.env_device))

    @property
    def continuous(self) -> bool:
        """Whether actions are (radius, angle, fire) instead of numbers of a list."""
        return bool(self.config.continuous)

    @functools.cached_property
    def shares_device(self) -> bool:
        """Whether environments and network are on the same device."""
        return _numbered(self.env_device) == _numbered(self.device)

    def captured(
        self,
        function: Callable[..., Result],
        *,
        draws: bool = True,
        stream: torch.cuda.Stream | None = None,
    ) -> Callable[..., Result]:
        """The function itself, or where the config asks for it, one that replays CUDA graphs.

        Args:
            function: As for `CapturedCall`.
            draws: Whether it may draw from `generator`. A replay then sets the generator's place on
                the device, so of graphs that are replayed at the same time only one may.
            stream: As for `CapturedCall`.
        """
        if not self.config.cuda_graphs:
            return function
        generators = [self.generator] if draws else []
        call = CapturedCall(function, self.device, generators, self._has_its_kernels, stream)
        self._captured.append(call)
        return call

    def _has_its_kernels(self) -> bool:
        # One that is still being compiled would not be in the graph.
        return not getattr(self.env, "is_compiling", False)

    @property
    def is_captured(self) -> bool:
        """Whether all steps that are to be replayed from graphs are."""
        return all(call.captures for call in self._captured)

    def count_steps(self, batched_steps: int) -> None:
        """Count steps of all consoles of all processes."""
        self.steps += batched_steps * self.num_envs * world_size()

    def learn(self, loss: Tensor, max_grad_norm: float, skip: Tensor | None = None) -> Tensor:
        """One step of the optimiser; the norm of the gradient before it was clipped.

        Whoever calls it counts `updates`, which a graph could not.

        Args:
            loss: Scalar.
            max_grad_norm: Global norm that gradients are clipped to; 0: not clipped.
            skip: bool scalar on the device: true, and nothing changes.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        average_gradients(parameters)
        norm = nn.utils.clip_grad_norm_(parameters, max_grad_norm or float("inf"))
        if skip is None:
            self.optimizer.step()
        else:
            step_unless(skip, self.optimizer)
        self.is_finite &= torch.isfinite(loss.detach()) & torch.isfinite(norm)
        return norm

    @property
    def total_envs(self) -> int:
        """Consoles of all processes."""
        return self.num_envs * world_size()

    @property
    def learning_rate(self) -> float:
        """The config's learning rate, scaled by the number of consoles as the config asks."""
        share = self.total_envs / 16  # CuLE's reference is 16 consoles
        scale = {"none": 1.0, "sqrt": share**0.5, "linear": share}[self.config.lr_scale]
        return float(self.config.learning_rate * scale)

    def set_learning_rate(self, value: float) -> None:
        """Set the learning rate of every group."""
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(value)
            else:
                group["lr"] = value

    def make_generator(self, offset: int) -> torch.Generator:
        """A generator of this process, for one purpose."""
        return torch.Generator(device=self.device).manual_seed(self.seed_of(offset))

    def seed_of(self, offset: int) -> int:
        """The seed of this process for one purpose."""
        return int(self.config.seed) + RANK_SEED_STRIDE * rank() + offset

    def env_seed(self) -> int:
        """The seed of environments that begin now.

        A run that was resumed without its buffer does not see its first episodes again.
        """
        return self.seed_of(self.steps) % 2**30  # consoles count on from it, below 2^31

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """bfloat16 where the config asks for it."""
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled)

    def gauges(self) -> dict[str, float]:
        """Numbers of the state it is in, for a row of progress; waits for the device."""
        return {}

    def check_finite(self, last_checkpoint: str = "none yet") -> None:
        """Stop where a loss or a weight is not a number any more. Waits for the device.

        Raises:
            DivergedError: It names the last checkpoint before that.
        """
        weights = torch.stack([torch.isfinite(p).all() for p in self.network.parameters()])
        if not bool(self.is_finite & weights.all()):
            raise DivergedError(
                f"a loss or weight is no finite number after {self.steps} steps and "
                f"{self.updates} updates; last good checkpoint: {last_checkpoint}"
            )

    def evaluate(self, **options: Any) -> Evaluation:
        """Play whole games; options and result as of `cule.agents.evaluate`."""
        from cule.agents.evaluation import evaluate

        return evaluate(self, **options)

    def _default_env(self) -> FrameEnv:
        config = self.config
        if self.device.index is not None and not config.env_device:
            config = dataclasses.replace(config, env_device=str(self.device))
        return make_env(config)

    def _count_actions(self) -> int:
        """Number of actions; 0 where they are continuous."""
        space = self.env.single_action_space
        if hasattr(space, "n") == self.continuous:
            wanted, found = (
                ("continuous", "a list") if self.continuous else ("a list", "continuous")
            )
            raise InvalidArgumentError(
                f"the actions of the environment are {found}; {self.name} with these options "
                f"needs {wanted}"
            )
        return 0 if self.continuous else int(space.n)

    def _check_graphs(self) -> None:
        if not self.config.cuda_graphs:
            return
        if self.device.type != "cuda":
            raise InvalidArgumentError(
                f"cuda_graphs is True and device {str(self.device)!r}; graphs need device 'cuda'"
            )
        if world_size() > 1:
            raise InvalidArgumentError(
                f"cuda_graphs is True and there are {world_size()} processes; it must be one"
            )

    def _use_precision(self) -> None:
        if self.config.torch_threads:
            torch.set_num_threads(self.config.torch_threads)
        allows_tf32 = self.config.precision != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = allows_tf32
        torch.backends.cudnn.allow_tf32 = allows_tf32  # which torch allows unless told
        if self.config.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)

    # --- Checkpoints ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, replay: bool = True) -> None:
        """Write a checkpoint, whole or not at all.

        Args:
            path: Where to. Processes other than the first write ``NAME.rankR.SUFFIX`` beside it.
            replay: With the replay memory (of algorithms that have one); without it a resumed run
                first fills a new one.

        Raises:
            OSError: The disk does not take it.
        """
        content = {
            **self._to_play(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "statistics": self.statistics.sums,
            "metrics": dict(self.metrics),
            "world_size": world_size(),
            "has_begun": self._has_begun,
            "env": torch.as_tensor(self.env.get_state()) if self._has_begun else None,
            "extra": self.extra_state(replay=replay),
        }
        write_checkpoint(of_rank(path), content)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Write the network alone, as safetensors, whole or not at all.

        Args:
            path: Where to, ``NAME.safetensors``.

        Raises:
            OSError: The disk does not take it.
            MissingPackageError: safetensors is not installed.
        """
        write_weights(path, self._to_play())

    def _to_play(self) -> dict[str, Any]:
        """What of a checkpoint `load_weights` needs."""
        return {
            "algorithm": self.name,
            "version": __version__,
            "config": dataclasses.asdict(self.config),
            "obs_shape": list(self.obs_shape),
            "num_actions": self.num_actions,
            "steps": self.steps,
            "updates": self.updates,
            "network": self.network.state_dict(),
        }

    def load_state(self, content: Mapping[str, Any]) -> None:
        """Take a checkpoint's content into this learner.

        Raises:
            CheckpointError: It belongs to another algorithm, another shape, other options or
                another number of processes, or the processes have checkpoints of other steps.
        """
        self._check_content(content)
        self.network.load_state_dict(content["network"])
        self.optimizer.load_state_dict(content["optimizer"])
        if self.device.type == "cpu":
            for group in self.optimizer.param_groups:  # saved on a GPU they may be otherwise
                group["lr"] = float(group["lr"])
                if "capturable" in group:
                    group["capturable"] = False
        if self.config.cuda_graphs:
            make_capturable(self.optimizer, self.device)
        for call in self._captured:
            call.forget()
        try:
            self.generator.set_state(content["generator"])
        except RuntimeError:  # that of another kind of device
            self.generator.manual_seed(self.seed_of(ACTING_SEED) + content["steps"])
        self.statistics.sums.copy_(content["statistics"])
        saved = content.get("metrics", {})
        self.metrics = {k: torch.as_tensor(v, device=self.device) for k, v in saved.items()}
        self.steps, self.updates = content["steps"], content["updates"]
        check_alike("steps and updates of the checkpoint", (self.steps, self.updates))
        broadcast_module(self.network)
        goes_on = self.load_extra_state(content["extra"])
        self._has_begun = content["has_begun"] and goes_on
        if self._has_begun:
            self.env.set_state(content["env"])

    def load_weights(self, content: Mapping[str, Any]) -> None:
        """Take only network and counters of a checkpoint, to play and not to train on.

        Raises:
            CheckpointError: It belongs to another algorithm or another shape.
        """
        self._check_shapes(content)
        try:
            self.network.load_state_dict(content["network"])
        except RuntimeError as error:
            raise CheckpointError(f"the weights are none of this network: {error}") from None
        self.steps, self.updates = content["steps"], content["updates"]

    def _check_shapes(self, content: Mapping[str, Any]) -> None:
        if content["algorithm"] != self.name:
            raise CheckpointError(
                f"the checkpoint is one of {content['algorithm']!r}, this learner is {self.name!r}"
            )
        for name in ("obs_shape", "num_actions"):
            own = getattr(self, name)
            own = list(own) if isinstance(own, tuple) else own
            if content[name] != own:
                raise CheckpointError(
                    f"{name} of the checkpoint is {content[name]}, here it is {own}"
                )

    def _check_content(self, content: Mapping[str, Any]) -> None:
        self._check_shapes(content)
        saved = content.get("world_size", world_size())
        if saved != world_size():
            raise CheckpointError(
                f"the checkpoint was made by {saved} processes; here there are {world_size()}"
            )
        for item in dataclasses.fields(self.config):
            name, value = item.name, getattr(self.config, item.name)
            saved = content["config"].get(name, item.default)  # an option newer than the file
            if name not in _FREE_OPTIONS and saved != value:
                raise CheckpointError(
                    f"the checkpoint was made with {name} = {saved!r}; here it is {value!r}"
                )

    @classmethod
    def load(
        cls: type[AnyAgent],
        path: str | os.PathLike[str],
        env: FrameEnv | None = None,
        **changes: Any,
    ) -> AnyAgent:
        """Make a learner that goes on where `save` was called.

        Args:
            path: A checkpoint.
            env: As for the constructor.
            changes: Options that may differ: total_steps, device and threads.

        Raises:
            FileNotFoundError: There is no such file.
            CheckpointError: It is none, is damaged, or of another algorithm.
        """
        content = read_checkpoint(of_rank(path))
        if content.get("algorithm") != cls.name:
            raise CheckpointError(
                f"{path} is a checkpoint of {content.get('algorithm')!r}, not of {cls.name!r}"
            )
        agent = cls(config_from(cls.config_class, content["config"] | changes), env)
        agent.load_state(content)
        return agent


def of_rank(path: str | os.PathLike[str]) -> Path:
    """The file of this process."""
    plain = Path(path)
    return plain if rank() == 0 else plain.with_suffix(f".rank{rank()}{plain.suffix}")
