"""Options of replay buffers: one frozen dataclass a buffer, a sentence a field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from cule.errors import InvalidArgumentError, shown
from cule.familiar_names import check_keywords
from cule.kernels import BLOCK_SIDE
from cule.option_fields import documents, init_fields, one_of, within

#: No bound of an option.
INT_MAX = 2**31 - 1

#: Steps of the longest episode of the Atari environments: 108,000 frames, four a step.
ATARI_MAX_EPISODE_STEPS = 27_000


def check(name: str, value: object, is_allowed: bool, allowed: str) -> None:
    """Raise InvalidArgumentError unless a value is allowed."""
    if not is_allowed:
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must be {allowed}")


def check_options(options: object, kind: type) -> None:
    """Raise InvalidArgumentError unless the options of a buffer are of this kind."""
    if not isinstance(options, kind):
        raise InvalidArgumentError(
            f"options is a {type(options).__name__}; it must be a {kind.__name__}, such as "
            f"{kind.__name__}.for_env(env, ...)"
        )


def check_int(name: str, value: object, lowest: int, highest: int = INT_MAX) -> None:
    """Raise InvalidArgumentError unless `value` is an int from `lowest` to `highest`."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    allowed = f"an int of at least {lowest}"
    if is_int and value > highest:  # type: ignore[operator]
        allowed = f"an int from {lowest} to {highest}"
    check(name, value, is_int and lowest <= value <= highest, allowed)  # type: ignore[operator]


def check_range(name: str, value: object, lowest: float, highest: float) -> None:
    """Raise InvalidArgumentError unless `value` is a number from `lowest` to `highest`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_inside = is_number and lowest <= value <= highest  # type: ignore[operator]
    check(name, value, is_inside, f"a number from {lowest} to {highest}")


def check_shape(name: str, value: object) -> None:
    """Raise InvalidArgumentError unless `value` is a tuple of positive ints."""
    is_shape = isinstance(value, tuple) and all(
        isinstance(n, int) and 0 < n <= INT_MAX for n in value
    )
    check(name, value, is_shape, f"a tuple of positive ints, each at most {INT_MAX}")


def check_dtype(name: str, value: object) -> None:
    """Raise InvalidArgumentError unless `value` is a torch.dtype, not of quantized numbers."""
    check(name, value, isinstance(value, torch.dtype), "a torch.dtype")
    is_plain = not str(value).startswith(("torch.q", "torch.bits"))
    check(name, value, is_plain, "a torch.dtype of plain numbers")


def check_bool(name: str, value: object) -> None:
    """Raise InvalidArgumentError unless `value` is True or False."""
    check(name, value, isinstance(value, bool), "True or False")


def parse_device(device: str | torch.device) -> torch.device:
    """Convert `device` to a torch.device that exists, or raise InvalidArgumentError."""
    try:
        parsed = torch.device(device)
    except (RuntimeError, TypeError):
        raise InvalidArgumentError(
            f"device is {shown(device)}; it must be an argument of torch.device, such as 'cpu' or "
            "'cuda:0'"
        ) from None
    count = torch.cuda.device_count() if parsed.type == "cuda" else 0
    is_missing = parsed.type == "cuda" and (parsed.index or 0) >= count
    check("device", device, not is_missing, f"one of the {count} CUDA devices that torch sees")
    try:
        torch.empty(1, device=parsed).tolist()
    except (RuntimeError, AssertionError, NotImplementedError):
        check("device", device, False, "a device of this machine, which holds data")
    return parsed


def _check_metadata(name: str, value: object, metadata: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError unless a value is in the range or among the words of a field."""
    if "allowed" in metadata:
        allowed = metadata["allowed"]
        is_allowed = isinstance(value, str) and value in allowed
        check(name, value, is_allowed, f"one of {', '.join(allowed)}")
    elif "range" in metadata:
        low, high = metadata["range"]
        if isinstance(low, float):
            check_range(name, value, low, high)
        else:
            check_int(name, value, low)


class Environments(Protocol):
    """Attributes of a batch of environments that `StorageOptions.for_env` reads."""

    @property
    def num_envs(self) -> int:
        """Environments N."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """``autoreset_mode``."""

    @property
    def single_observation_space(self) -> Any:
        """Shape ``[S, H, W]``, ``[S, H, W, 3]`` or ``[D]``, and dtype."""

    @property
    def single_action_space(self) -> Any:
        """Shape and dtype."""


_Options = TypeVar("_Options", bound="StorageOptions")


@documents()
@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Options of every buffer: what it stores, and how a learner reads it."""

    num_envs: int = within(1, 1, INT_MAX)
    """Environments N that step together."""

    obs_shape: tuple[int, ...] = (84, 84)
    """Shape of one frame, or of one feature vector, of one environment."""

    obs_dtype: torch.dtype = torch.uint8
    """Type of its elements, stored without a conversion."""

    action_shape: tuple[int, ...] = ()
    """Shape of one action: () is an index, (A,) a vector."""

    action_dtype: torch.dtype = torch.int64
    """Type of stored and returned actions."""

    stack: int = within(4, 1, INT_MAX)
    """Frames S of an observation, newest last; 1 leaves frames as they are, without an axis."""

    pad: str = one_of("zero", "zero", "repeat")
    """Padding of stacks before the first frame of an episode: "zero", as in the Atari
    environments, or "repeat", which repeats the first frame."""

    pixel_blocks: bool = False
    """Whether observations have blocks of 4 x 4 pixels as channels, in bfloat16 and channels last:
    ``[B, 16 S, H / 4, W / 4]`` in place of ``[B, S, H, W]`` (`cule.kernels.gather_blocks`). For
    networks that read them so (`cule.nets.reads_blocks`); a GPU reads and writes memory once."""

    gamma: float = within(0.99, 0.0, 1.0)
    """Discount of one step."""

    reward_clipping: str = one_of("none", "none", "clip", "sign")
    """Transformation of rewards when they are read: "none", "clip" (to -1 ... 1), "sign"."""

    terminal_on_life_loss: bool = False
    """Whether a lost life sets the discount to 0; the stack continues across it either way."""

    autoreset_mode: str | Enum = one_of("SameStep", "SameStep", "NextStep")  # noqa: RUF009
    """How the environments start episodes: "SameStep" or "NextStep", or Gymnasium's AutoresetMode
    of these names. The default of `AtariVectorEnv` is "NextStep"; `for_env` takes it from there."""

    max_episode_steps: int = within(ATARI_MAX_EPISODE_STEPS, 1, INT_MAX)
    """Steps after which episodes are truncated. The buffer keeps as many final frames of truncated
    episodes as this limit allows; with more truncations, some samples get weight 0."""

    device: Any = "cpu"  # Any: given as text or a torch.device, read as a torch.device
    """Device of the tensors: an argument of torch.device."""

    seed: int = within(0, 0, INT_MAX)
    """Seed of the buffer's own generator."""

    def __new__(cls: type[_Options], *_: object, **options: object) -> _Options:
        """Refuse options that do not exist, with the names that are meant."""
        check_keywords(cls.__name__, options, init_fields(cls))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Check every field; convert `device` and `autoreset_mode`."""
        check_shape("obs_shape", self.obs_shape)
        check_shape("action_shape", self.action_shape)
        check_dtype("obs_dtype", self.obs_dtype)
        check_dtype("action_dtype", self.action_dtype)
        mode = getattr(self.autoreset_mode, "value", self.autoreset_mode)
        object.__setattr__(self, "autoreset_mode", mode)
        for item in fields(self):
            _check_metadata(item.name, getattr(self, item.name), item.metadata)
            if item.type == "bool":
                check_bool(item.name, getattr(self, item.name))
        sides = self.obs_shape if self.obs_dtype == torch.uint8 else ()
        fits = len(sides) == 2 and all(side % BLOCK_SIDE == 0 for side in sides)
        if self.pixel_blocks and not fits:
            raise InvalidArgumentError(
                f"pixel_blocks is True with frames {self.obs_shape} of {self.obs_dtype}; they must "
                f"be torch.uint8 [H, W], with multiples of {BLOCK_SIDE}"
            )
        object.__setattr__(self, "device", parse_device(self.device))

    @classmethod
    def for_env(cls: type[_Options], env: Environments, **options: Any) -> _Options:
        """Options that fit a batch of environments.

        Args:
            env: Sets num_envs, shapes and types of frames and actions, stack and autoreset_mode; an
                `AtariVectorEnv` also max_episode_steps and device.
            **options: The other options, or other values of these.

        Raises:
            InvalidArgumentError: A value is not allowed, such as the autoreset mode Disabled.

        Example:
            >>> import cule
            >>> from cule.replay import ReplayOptions
            >>> env = cule.AtariVectorEnv("pong", num_envs=8)
            >>> ReplayOptions.for_env(env, capacity=10_000).autoreset_mode
            'NextStep'
        """
        missing = [
            name for name in vars(Environments) if not (name[0] == "_" or hasattr(env, name))
        ]
        if missing:
            raise InvalidArgumentError(
                f"env is {shown(env)}, which has no {', '.join(missing)}; it must be a batch of "
                "environments, such as an AtariVectorEnv"
            )
        space, actions = env.single_observation_space, env.single_action_space
        has_stack = len(space.shape) >= 3
        found: dict[str, Any] = {
            "num_envs": env.num_envs,
            "stack": space.shape[0] if has_stack else 1,
            "obs_shape": tuple(space.shape[1:] if has_stack else space.shape),
            "obs_dtype": _torch_dtype(space.dtype),
            "action_shape": tuple(actions.shape),
            "action_dtype": _torch_dtype(actions.dtype),
            "autoreset_mode": env.metadata["autoreset_mode"],
        }
        config = getattr(env, "config", None)
        if config is not None:
            found["max_episode_steps"] = -(-config.max_num_frames_per_episode // config.frameskip)
            found["device"] = config.device
        return cls(**found | options)

    def summary(self) -> str:
        """Environments, observations and device, for the ``repr`` of a buffer."""
        dtype = str(self.obs_dtype).removeprefix("torch.")
        return (
            f"num_envs={self.num_envs}, obs={dtype} {self.obs_shape}, stack={self.stack}, "
            f"device={str(self.device)!r}"
        )

    def describe(self, *, without: Collection[str] = ()) -> dict[str, str]:
        """Fields as text, for checkpoints."""
        names = (item.name for item in fields(self))
        return {name: str(getattr(self, name)) for name in names if name not in without}


def _torch_dtype(dtype: Any) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype


@documents()
@dataclass(frozen=True, kw_only=True)
class ReplayOptions(StorageOptions):
    """Options of `UniformReplay`."""

    capacity: int | float | str = 100_000
    """Transitions that can be sampled once the ring is full (rounded up to whole steps of all
    environments); or memory: "40GB", "512MiB", or 0.5 for half of the free memory of the device."""

    n_step: int = within(1, 1, INT_MAX)
    """Steps n of a return."""

    replacement: bool = True
    """False samples distinct transitions, also across consecutive batches, until fewer than a batch
    are left or you append."""


@documents()
@dataclass(frozen=True, kw_only=True)
class PrioritizedOptions(ReplayOptions):
    """Options of `PrioritizedReplay`, which always samples with replacement."""

    alpha: float = within(0.6, 0.0, 1.0)
    """Exponent of priorities: 0 is uniform, 1 fully proportional."""

    beta: float = within(0.4, 0.0, 1.0)
    """Exponent of importance weights: 0 is none, 1 corrects fully; `sample` can override it."""

    def __post_init__(self) -> None:
        """Check the new fields."""
        super().__post_init__()
        check("replacement", self.replacement, self.replacement, "True for prioritized sampling")


#: Other arguments of `TrajectoryBuffer.append`, whose names no extra can have.
_ARGUMENTS = ("self", "actions", "step")


@documents()
@dataclass(frozen=True, kw_only=True)
class TrajectoryOptions(StorageOptions):
    """Options of `TrajectoryBuffer`."""

    num_steps: int = within(20, 1, INT_MAX)
    """Steps T of a rollout."""

    num_batches: int = within(1, 1, INT_MAX)
    """Fixed batches of environments B, updated in rotation; it divides num_envs."""

    steps_per_update: float | None = None
    """Steps of all environments between two updates; 1/U makes U updates after every step. None is
    `num_steps`, on-policy."""

    extras: dict[str, tuple[tuple[int, ...], torch.dtype]] = field(
        default_factory=lambda: {"log_probs": ((), torch.float32), "values": ((), torch.float32)}
    )
    """Further values of a step, by name: shape for one environment, and type."""

    def __post_init__(self) -> None:
        """Check the new fields."""
        super().__post_init__()
        check("extras", self.extras, isinstance(self.extras, dict), "a dict")
        for name, entry in self.extras.items():
            is_name = isinstance(name, str) and name not in _ARGUMENTS
            check(
                "extras",
                self.extras,
                is_name,
                f"a dict of names other than {', '.join(_ARGUMENTS)}",
            )
            is_pair = isinstance(entry, tuple) and len(entry) == 2
            check(f"extras[{name!r}]", entry, is_pair, "a tuple of a shape and a torch.dtype")
            check_shape(f"extras[{name!r}]", entry[0])
            check_dtype(f"extras[{name!r}]", entry[1])


@documents()
@dataclass(frozen=True, kw_only=True)
class SharedOptions(PrioritizedOptions):
    """Options of `SharedPrioritizedReplay`; `num_envs` are the environments of one writer.

    The buffer is in host memory; `device` receives the batches.
    """

    num_writers: int = within(1, 1, INT_MAX)
    """Most writer processes at a time."""

    block_size: int = within(128, 1, INT_MAX)
    """Transitions that a writer publishes at once."""
