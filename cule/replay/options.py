"""What a buffer is told when it is made: one frozen dataclass a buffer, a sentence a field."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch

from cule.errors import InvalidArgumentError

#: Steps of the longest episode of the Atari environments: 108,000 frames, four a step.
ATARI_MAX_EPISODE_STEPS = 27_000

PADS = ("zero", "repeat")
REWARD_CLIPPINGS = ("none", "clip", "sign")
AUTORESET_MODES = ("SameStep", "NextStep")


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of the allowed ones."""
    if value not in allowed:
        raise InvalidArgumentError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")


def check_int(name: str, value: object, lowest: int) -> None:
    """Refuse what is not an int of at least `lowest`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise InvalidArgumentError(f"{name} is {value!r}; it must be an int of at least {lowest}")


def check_range(name: str, value: object, lowest: float, highest: float) -> None:
    """Refuse what is not a number from `lowest` to `highest`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not lowest <= value <= highest:  # type: ignore[operator]
        raise InvalidArgumentError(
            f"{name} is {value!r}; it must be a number from {lowest} to {highest}"
        )


def check_shape(name: str, value: object) -> None:
    """Refuse what is not a tuple of positive ints."""
    is_shape = isinstance(value, tuple) and all(isinstance(n, int) and n > 0 for n in value)
    if not is_shape:
        raise InvalidArgumentError(f"{name} is {value!r}; it must be a tuple of positive ints")


def check_dtype(name: str, value: object) -> None:
    """Refuse what is not a torch dtype."""
    if not isinstance(value, torch.dtype):
        raise InvalidArgumentError(f"{name} is {value!r}; it must be a torch.dtype")


def check_device(device: Any) -> torch.device:
    """The torch device that a string or device names, if it is there."""
    try:
        found: torch.device = torch.device(device)
    except (RuntimeError, TypeError):
        raise InvalidArgumentError(
            f"device is {device!r}; it must be what torch.device takes, such as 'cpu' or 'cuda:0'"
        ) from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise InvalidArgumentError(
            f"device is {device!r}; torch sees {torch.cuda.device_count()} CUDA devices"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """What every buffer stores, and what a stored step means to a learner."""

    num_envs: int = 1
    """Environments N that step together."""

    obs_shape: tuple[int, ...] = (84, 84)
    """Shape of one frame, or of one feature vector, of one environment."""

    obs_dtype: torch.dtype = torch.uint8
    """Type of its elements; stored as it is, whatever it is."""

    action_shape: tuple[int, ...] = ()
    """Shape of one action: () is an index, (A,) a vector."""

    action_dtype: torch.dtype = torch.int64
    """Type that actions are stored and returned in; they must fit into it."""

    stack: int = 4
    """Frames S of an observation, newest last; 1 leaves frames as they are, without an axis."""

    pad: str = "zero"
    """What stands before the first frame of an episode: "zero", as in the Atari environments,
    or "repeat", the first frame again."""

    gamma: float = 0.99
    """Discount of one step."""

    reward_clipping: str = "none"
    """What is made of stored rewards when they are read: "none", "clip" (to -1 ... 1), "sign"."""

    terminal_on_life_loss: bool = False
    """Whether a lost life sets the discount to 0; the stack continues across it either way."""

    autoreset_mode: Any = "SameStep"
    """How the environments start episodes: "SameStep" or "NextStep", or Gymnasium's AutoresetMode
    of these names."""

    max_episode_steps: int = ATARI_MAX_EPISODE_STEPS
    """Steps after which episodes are truncated. Final frames of truncated episodes are kept aside
    for as many as this allows; with more truncations than that some samples get weight 0."""

    device: Any = "cpu"
    """Where everything lives: what torch.device takes."""

    seed: int = 0
    """Seed of the buffer's own generator."""

    _ALLOWED: ClassVar[dict[str, tuple[str, ...]]] = {
        "pad": PADS,
        "reward_clipping": REWARD_CLIPPINGS,
        "autoreset_mode": AUTORESET_MODES,
    }

    def __post_init__(self) -> None:
        """Check every field, and turn devices and modes into what they mean."""
        check_int("num_envs", self.num_envs, 1)
        check_int("stack", self.stack, 1)
        check_int("max_episode_steps", self.max_episode_steps, 1)
        check_int("seed", self.seed, 0)
        check_shape("obs_shape", self.obs_shape)
        check_shape("action_shape", self.action_shape)
        check_dtype("obs_dtype", self.obs_dtype)
        check_dtype("action_dtype", self.action_dtype)
        check_range("gamma", self.gamma, 0.0, 1.0)
        mode = getattr(self.autoreset_mode, "value", self.autoreset_mode)
        object.__setattr__(self, "autoreset_mode", mode)
        for name, allowed in self._ALLOWED.items():
            check_choice(name, getattr(self, name), allowed)
        object.__setattr__(self, "device", check_device(self.device))

    def describe(self) -> dict[str, str]:
        """Every field as text, for checkpoints."""
        return {item.name: str(getattr(self, item.name)) for item in fields(self)}


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(StorageOptions):
    """Options of `UniformReplay`."""

    capacity: int | float | str = 100_000
    """Transitions that can be sampled once the ring is full (rounded up to whole steps of all
    environments); or memory: "40GB", "512MiB", or 0.5 for half of the free memory of the device."""

    n_step: int = 1
    """Steps n of a return."""

    replacement: bool = True
    """False draws all transitions of a batch distinct, and those of consecutive batches as well
    until fewer than a batch are left or something is appended."""

    def __post_init__(self) -> None:
        """Check what is new here; the capacity is checked against the memory later."""
        super().__post_init__()
        check_int("n_step", self.n_step, 1)


@dataclass(frozen=True, kw_only=True)
class PrioritizedOptions(ReplayOptions):
    """Options of `PrioritizedReplay`, which always draws with replacement."""

    alpha: float = 0.6
    """Exponent of priorities: 0 is uniform, 1 fully proportional."""

    beta: float = 0.4
    """Exponent of importance weights: 0 is none, 1 corrects fully; `sample` takes another."""

    uniform_mixture: float = 0.0
    """Probability that a draw is uniform over all transitions, whatever their priorities; the
    importance weights are those of the mixture."""

    def __post_init__(self) -> None:
        """Check what is new here."""
        super().__post_init__()
        check_range("alpha", self.alpha, 0.0, 1.0)
        check_range("beta", self.beta, 0.0, 1.0)
        check_range("uniform_mixture", self.uniform_mixture, 0.0, 1.0)
        if not self.replacement:
            raise InvalidArgumentError(
                "replacement is False; prioritized sampling must be with replacement (True)"
            )


@dataclass(frozen=True, kw_only=True)
class TrajectoryOptions(StorageOptions):
    """Options of `TrajectoryBuffer`."""

    num_steps: int = 20
    """Steps T of a rollout or window."""

    num_batches: int = 1
    """Fixed batches of environments B that updates take in turn; it divides num_envs."""

    steps_per_update: float | None = None
    """Steps of all environments between two updates; below 1, 1/U makes U updates after every
    step. None is `num_steps`, on-policy."""

    extras: dict[str, tuple[tuple[int, ...], torch.dtype]] = field(
        default_factory=lambda: {"log_probs": ((), torch.float32), "values": ((), torch.float32)}
    )
    """What is stored beside a step, by name: shape of one environment's value, and type."""

    def __post_init__(self) -> None:
        """Check what is new here."""
        super().__post_init__()
        check_int("num_steps", self.num_steps, 1)
        for name, (shape, dtype) in self.extras.items():
            check_shape(f"extras[{name!r}]", shape)
            check_dtype(f"extras[{name!r}]", dtype)


@dataclass(frozen=True, kw_only=True)
class SharedOptions(PrioritizedOptions):
    """Options of `SharedPrioritizedReplay`; `num_envs` are the environments of one explorer.

    The memory is the host's; `device` is where batches go.
    """

    num_explorers: int = 1
    """Most explorer processes at a time."""

    block_size: int = 128
    """Transitions that an explorer hands over at once."""

    def __post_init__(self) -> None:
        """Check what is new here."""
        super().__post_init__()
        check_int("num_explorers", self.num_explorers, 1)
        check_int("block_size", self.block_size, 1)
