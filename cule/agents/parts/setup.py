"""`Setup`: what every learner needs before its algorithm: devices, environments, random streams."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from cule.agents.parts.config import (
    ACTING_SEED,
    EVALUATION_SEED,
    RANK_SEED_STRIDE,
    REPLAY_SEED,
    WEIGHTS_SEED,
    AgentConfig,
)
from cule.agents.parts.distributed import (
    average_gradients,
    broadcast_module,
    collectives_can_be_captured,
    join_world,
    rank,
    world_size,
)
from cule.agents.parts.envs import (
    AnyEnv,
    DiscreteSpace,
    EpisodeStatistics,
    FrameEnv,
    as_frame_env,
    check_network,
    make_env,
    mode_of,
    newest_frames,
    obs_dtype,
    obs_shape,
    split_obs_shape,
)
from cule.agents.parts.graphs import Graphs
from cule.agents.parts.optim import step_unless
from cule.agents.parts.timer import PhaseTimer
from cule.envs import FrameStep
from cule.errors import InvalidArgumentError, shown
from cule.kernels import BLOCK_SIDE
from cule.nets import OBJECT_SCALE, OBJECT_TORSOS, read_floats, reads_blocks
from cule.nets.torsos import IMAGE_TORSOS, TORSOS
from cule.option_fields import is_number

if TYPE_CHECKING:
    from cule.agents.parts.learner import Learner

#: A network, or a function (or class) that makes it from the shape of an observation and the number
#: of actions.
Network: TypeAlias = nn.Module | Callable[[tuple[int, ...], int], nn.Module]


class Setup:
    """Devices, environments, random streams, statistics and CUDA graphs of a learner.

    Attributes:
        config: The options.
        device: Device of the network.
        env_device: Device of the environments.
        env: The environments.
        obs_shape: Shape of an observation.
        obs_dtype: Type of its elements.
        autoreset_mode: SameStep or NextStep.
        num_actions: Number of actions; 0 where they are continuous.
        total_envs: Environments of all processes.
        generator: Random numbers of acting and learning, on the device.
        statistics: Statistics of the episodes that have ended.
        timer: Times the phases of rounds.
        graphs: The calls that are CUDA graphs.
        is_finite: Whether all losses so far were finite; bool scalar on the device.
        can_sync: Whether the host may read tensors to make decisions: on a CPU, outside of graphs.
    """

    def __init__(self, config: AgentConfig, env: AnyEnv | None, learner: type[Learner]) -> None:
        """Join the other processes, and make the environments of the config unless some are given.

        Raises:
            InvalidArgumentError: The config or the environments do not fit the algorithm.
            UnknownGameError, RomNotFoundError, DeviceError: As `cule.AtariVectorEnv`.
        """
        if not isinstance(config, learner.config_class):
            raise InvalidArgumentError(
                f"config is a {type(config).__name__}; {learner.__name__} needs a "
                f"{learner.config_class.__name__}, such as "
                f"{learner.config_class.__name__}(game='pong')"
            )
        self.config = config
        self.device, located = join(config)
        self.env_device = parse_device("env_device", config.env_device or str(self.device))
        check_graphs(config, self.device)
        configure_torch(config)
        self.env = as_frame_env(make_env(located) if env is None else env)
        self.num_envs = self.env.num_envs
        self.total_envs = self.num_envs * world_size()
        self.obs_shape, self.obs_dtype = obs_shape(self.env), obs_dtype(self.env)
        self.autoreset_mode = mode_of(self.env)
        self.num_actions = count_actions(self.env, learner.name, continuous=config.continuous)
        self.statistics = EpisodeStatistics(self.device)
        self.is_finite = torch.ones((), dtype=torch.bool, device=self.device)
        self.generator = self.make_generator(ACTING_SEED)
        self.shares_device = is_same_device(self.env_device, self.device)
        self.can_sync = self.device.type == "cpu" and not config.cuda_graphs
        self.timer = PhaseTimer(
            self.device, separates_emulation=self.shares_device or self.env_device.type == "cpu"
        )
        self.graphs = Graphs(
            self.device,
            self.generator,
            # A graph would keep the interpreter kernel while that of the game is being compiled.
            lambda: not getattr(self.env, "is_compiling", False),
            is_enabled=config.cuda_graphs,
        )

    # --- Random streams ---------------------------------------------------------------------------

    def seed_of(self, offset: int) -> int:
        """The seed of this process for the stream with an offset."""
        return self.config.seed + RANK_SEED_STRIDE * rank() + offset

    def make_generator(self, offset: int) -> torch.Generator:
        """A generator on the device for the stream with an offset."""
        return torch.Generator(device=self.device).manual_seed(self.seed_of(offset))

    @functools.cached_property
    def prediction_generator(self) -> torch.Generator:
        """Random numbers of `Learner.predict`, which training does not use."""
        return self.make_generator(EVALUATION_SEED)

    def env_seed(self, steps: int) -> int:
        """The seed for environments that begin after a number of steps.

        A run that is resumed without its buffer so sees new episodes.
        """
        return self.seed_of(steps) % 2**30  # environments count up from it, below 2^31

    # --- Networks ---------------------------------------------------------------------------------

    def make_network(
        self,
        given: Network | None,
        make: Callable[[], nn.Module],
        outputs: Mapping[str, tuple[int, ...]],
    ) -> nn.Module:
        """The given network, or the one that `make` makes, on the device, equal in all processes.

        Args:
            given: The network of a user.
            make: Makes the network of the config on the CPU, from the global generator.
            outputs: Names and shapes, for one observation, of what it must return; empty: any.

        Raises:
            InvalidArgumentError: The network does not read the observations, or returns others.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed + WEIGHTS_SEED)
            if isinstance(given, nn.Module):
                network = given
            elif given is not None:
                if not callable(given):
                    raise InvalidArgumentError(
                        f"network is {shown(given)}; it must be a torch.nn.Module, or a function "
                        "or class that makes one (by name it is an option of the config)"
                    )
                network = given(self.obs_shape, self.num_actions)
                if not isinstance(network, nn.Module):
                    raise InvalidArgumentError(
                        f"network made a {type(network).__name__}; it must make a torch.nn.Module"
                    )
            else:
                network = make()
                if self.obs_dtype.is_floating_point:
                    read_floats(network)
                elif self.obs_dtype == torch.int16:
                    read_floats(network, OBJECT_SCALE)
                    from cule.nets import name_rows

                    layout = getattr(self.env, "objects_layout", None)
                    if layout is not None and len(layout.slots) == 1:
                        (slots,) = layout.slots.values()
                        name_rows(network, [slot.name for slot in slots])
            network = network.to(self.device)
            if outputs:
                # A buffer gives a stack of one frame without its axis.
                stack, frame_shape = split_obs_shape(self.env)
                for shape in {self.obs_shape, self.obs_shape if stack > 1 else frame_shape}:
                    check_network(network, shape, self.obs_dtype, outputs, self.device)
        broadcast_module(network)
        return network

    def compiled(self, network: nn.Module) -> Any:  # a module or what torch makes of it
        """The network, compiled if the config asks for it."""
        return torch.compile(network) if self.config.compile else network

    def network_options(
        self, *, normalize_obs: bool, torsos: Collection[str] = TORSOS
    ) -> dict[str, Any]:
        """Keywords of the networks of `cule.nets`, of which the algorithm has these torsos.

        Raises:
            InvalidArgumentError: The network is not for observations of this type; or those of
                objects are to be normalized, which hides what is visible, for a network that reads
                that.
        """
        name, has_rows = self.config.network, self.obs_dtype == torch.int16
        fitting = ("mlp", *OBJECT_TORSOS) if has_rows else IMAGE_TORSOS
        allowed = [torso for torso in fitting if torso in torsos]
        if len(self.obs_shape) == 3 and name not in allowed:
            raise InvalidArgumentError(
                f"network is {shown(name)}; for {'objects' if has_rows else 'images'} it must be "
                f"one of {', '.join(allowed)}"
            )
        if normalize_obs and name in OBJECT_TORSOS:
            raise InvalidArgumentError(
                f"normalize_obs is True and network {shown(name)}, which has scales of its own; "
                "normalize_obs must be False"
            )
        return {
            "torso": name,
            "initialization": self.config.initialization,
            "normalize_obs": normalize_obs,
        }

    def stop_at(self, steps: int | None) -> int:
        """Number of steps at which `train` stops: by default `total_steps`.

        Raises:
            InvalidArgumentError: `steps` is not a number.
        """
        is_valid = steps is None or (is_number(steps) and steps == steps)
        if not is_valid:
            raise InvalidArgumentError(f"steps is {shown(steps)}; it must be a number or None")
        return self.config.total_steps if steps is None else steps

    @property
    def learning_rate(self) -> float:
        """The initial learning rate, scaled with the number of environments by `lr_scale`."""
        share = self.total_envs / 16  # CuLE's reference is 16 environments
        scale = {"none": 1.0, "sqrt": share**0.5, "linear": share}[self.config.lr_scale]
        return float(self.config.learning_rate * scale)

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """Autocast to bfloat16 if the config asks for it."""
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled)

    def descend(
        self, loss: Tensor, optimizer: torch.optim.Optimizer, skip: Tensor | None = None
    ) -> Tensor:
        """Take one step of an optimizer, and return the global norm of the gradients.

        The caller counts updates, which a CUDA graph cannot. Where `skip`, a bool scalar on the
        device, is true, the step changes nothing.
        """
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        average_gradients(parameters)
        norm = nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm or float("inf"))
        if skip is None:
            optimizer.step()
        else:
            step_unless(skip, optimizer)
        self.is_finite &= torch.isfinite(loss.detach()) & torch.isfinite(norm)
        return norm

    def only_valid(self, valid: Tensor) -> Tensor | None:
        """Which samples to learn from; None: all, as always with SameStep autoreset."""
        return valid if self.autoreset_mode == "NextStep" else None

    # --- Steps ------------------------------------------------------------------------------------

    def check_obs(self, obs: object) -> Tensor:
        """Return observations ``[n, *obs_shape]`` on the device, as networks read them.

        Raises:
            InvalidArgumentError: They are something else.
        """
        shapes = [self.obs_shape, *([self.obs_shape[1:]] if self.obs_shape[0] == 1 else [])]
        if (
            isinstance(obs, Tensor)
            and obs.dtype == self.obs_dtype
            and tuple(obs.shape[1:]) in shapes  # a stack of one frame may have no axis
            and is_same_device(obs.device, self.device)
        ):
            return obs
        raise self._refusal(obs, obs)

    def tensor_of(self, obs: object) -> Tensor:
        """Return observations as a tensor: themselves, or a copy of an array of their dtype.

        Raises:
            InvalidArgumentError: They are something else.
        """
        if isinstance(obs, Tensor):
            if obs.layout != torch.strided or obs.is_meta or obs.is_nested:
                raise self._refusal(obs, None if obs.is_nested else obs)  # they have no shape
            return obs
        array: object = None
        try:
            array = np.asarray(obs)
            dtype = str(self.obs_dtype).removeprefix("torch.")
            are_numbers = self.obs_dtype.is_floating_point and not hasattr(obs, "dtype")
            # A list of numbers has no dtype.
            return torch.from_numpy(
                array.astype(dtype, "C", "same_kind" if are_numbers else "equiv")
            )
        except (TypeError, ValueError, RuntimeError):
            raise self._refusal(obs, array) from None

    def _refusal(self, obs: object, values: object) -> InvalidArgumentError:
        """The error for observations with these values."""
        given = f"a {type(obs).__name__}"
        if isinstance(values, Tensor | np.ndarray):
            given += f" of {values.dtype}, shape {tuple(values.shape)}"
        if isinstance(values, Tensor):
            layout = "" if values.layout == torch.strided else f", {values.layout}"
            given += f"{layout}, on {values.device}"
        shape = ", ".join(map(str, ("n", *self.obs_shape)))
        return InvalidArgumentError(
            f"obs is {given}; it must be a tensor of {self.obs_dtype}, shape ({shape}), on "
            f"{self.device}; `predict` takes arrays and single observations too"
        )

    def reset(self, steps: int) -> Tensor:
        """Start new episodes; return the first frames, ``[N, H, W]`` or ``[N, D]``."""
        obs, _ = self.env.reset(seed=self.env_seed(steps))
        return newest_frames(self.env, obs).to(self.device)

    def step_env(self, actions: Tensor, next_frame: Tensor | None) -> FrameStep:
        """Step the environments; on the same device, write frames to `next_frame` of the buffer."""
        with self.timer.phase("emulate"):
            if self.shares_device:
                return self.env.step_frames(actions, out=next_frame)
            return self.env.step_frames(actions.to(self.env_device))

    def of_own_envs(self, values: Tensor) -> Tensor:
        """The part of values ``[N of all processes]`` for the environments of this process."""
        first = rank() * self.num_envs
        return values[first : first + self.num_envs].to(self.device)

    def storage_options(self, network: nn.Module) -> dict[str, Any]:
        """Keywords of `cule.replay.StorageOptions` for the buffer of this process."""
        config = self.config
        stack, frame_shape = split_obs_shape(self.env)
        return {
            "num_envs": self.num_envs,
            "obs_shape": frame_shape,
            "obs_dtype": self.obs_dtype,
            "autoreset_mode": self.autoreset_mode,
            "stack": stack,
            "pixel_blocks": self.reads_blocks(network),
            "gamma": config.gamma,
            "reward_clipping": config.reward_rule,
            "terminal_on_life_loss": config.episodic_life,
            "max_episode_steps": -(-config.max_num_frames_per_episode // config.frameskip),
            "device": self.device,
            "seed": self.seed_of(REPLAY_SEED),
        }

    def reads_blocks(self, network: nn.Module) -> bool:
        """Whether the buffer gathers observations as the first convolution reads them.

        That saves passes over memory on a GPU, where the network computes in bfloat16 anyway.
        """
        rows, columns = self.obs_shape[-2:] if len(self.obs_shape) == 3 else (1, 1)
        return (
            self.device.type == "cuda"
            and self.config.precision == "bf16"
            and self.obs_dtype == torch.uint8
            and rows % BLOCK_SIDE == columns % BLOCK_SIDE == 0
            and reads_blocks(network)
        )


def count_actions(env: FrameEnv, name: str, *, continuous: bool) -> int:
    """Number of actions; 0 where they are continuous.

    Raises:
        InvalidArgumentError: They are of the other kind.
    """
    space = env.single_action_space
    is_discrete = isinstance(space, DiscreteSpace)
    if is_discrete == continuous:
        kinds = {True: "discrete", False: "continuous"}
        raise InvalidArgumentError(
            f"the actions of the environment are {kinds[is_discrete]}; {name} with these options "
            f"needs {kinds[not is_discrete]} actions"
        )
    return int(space.n) if isinstance(space, DiscreteSpace) else 0


def check_graphs(config: AgentConfig, device: torch.device) -> None:
    """Require that CUDA graphs are possible, if they are asked for."""
    if not config.cuda_graphs:
        return
    if device.type != "cuda":
        raise InvalidArgumentError(
            f"cuda_graphs is True and device {shown(str(device))}; graphs need device 'cuda'"
        )
    if world_size() > 1 and not collectives_can_be_captured():
        raise InvalidArgumentError(
            f"cuda_graphs is True and {world_size()} processes communicate by "
            f"{shown(dist.get_backend())}; with several processes graphs need 'nccl'"
        )


# --- Devices and global settings of torch ---------------------------------------------------------


def parse_device(name: str, value: str) -> torch.device:
    """The device that an option names."""
    with contextlib.suppress(RuntimeError):
        device = torch.device(value)
        if device.type in ("cpu", "cuda"):
            return device
    raise InvalidArgumentError(
        f"{name} is {shown(value)}; it must be 'cpu', 'cuda' or 'cuda:<number>'"
    )


def join(config: AgentConfig) -> tuple[torch.device, AgentConfig]:
    """Join the other processes; return the device of this one, and the options with it.

    The environments are there as well, unless they have a device of their own.
    """
    device = join_world(parse_device("device", config.device))
    if device.index is not None and not config.env_device:
        config = dataclasses.replace(config, env_device=str(device))
    return device, config


def is_same_device(first: torch.device, second: torch.device) -> bool:
    """Whether two devices are the same, where "cuda" is the current device of torch."""
    return _with_index(first) == _with_index(second)


def _with_index(device: torch.device) -> torch.device:
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def idle_cores() -> int:
    """Cores that this process may use and that were idle over the last minute; at least 1."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        cores = os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # not on Windows
        load = 0.0
    return max(cores - round(load), 1)


def configure_torch(config: AgentConfig) -> None:
    """Set threads, TF32, determinism and the choice of convolutions for this process.

    Without a number, a network on a CPU gets the idle cores: threads of torch that share cores with
    other work wait for each other, and are several times slower than one. ``OMP_NUM_THREADS``
    takes precedence.
    """
    if config.torch_threads:
        torch.set_num_threads(config.torch_threads)
    elif config.device == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), idle_cores()))
    allows_tf32 = config.precision != "fp32"
    with warnings.catch_warnings():
        # Some versions of torch advise `fp32_precision` instead. After that, `allow_tf32` and
        # `torch.get_float32_matmul_precision`, which torch.compile reads, raise errors.
        warnings.filterwarnings("ignore", "(?s).*new API settings to control TF32", UserWarning)
        torch.backends.cuda.matmul.allow_tf32 = allows_tf32
        torch.backends.cudnn.allow_tf32 = allows_tf32  # on by default in torch
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    elif config.device != "cpu":  # sizes of batches stay the same
        torch.backends.cudnn.benchmark = True
