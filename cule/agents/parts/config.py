"""Options that all algorithms share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from cule.envs.options import MAX_ACTION_DELAY, MAX_IMG_WIDTH, GameOptions
from cule.errors import InvalidArgumentError
from cule.familiar_names import check_keywords
from cule.option_fields import (
    Bounds,
    Fraction,
    GradNorm,
    NonNegative,
    NonNegativeFloat,
    Positive,
    Seed,
    Threads,
    init_fields,
    one_of,
    validate,
)
from cule.reading import MAX_GAMES

_Config = TypeVar("_Config", bound="AgentConfig")


@dataclass(frozen=True, kw_only=True)
class AgentConfig(GameOptions):
    """Options of every algorithm."""

    game: str = "pong"
    """Game to learn; several with commas share the environments equally."""

    obs_type: str = one_of("image", "image", "ram", "objects")
    """image; ram: the 128 bytes of RAM; or objects: rows of numbers, in games with a table of them,
    see docs/objects.md."""

    mode: int | None = None
    """Game mode; none: the default of the game."""

    num_players: Annotated[int, Bounds(1, 4)] = 1
    """Players of each game. With several the policy plays against itself, each seat counts as an
    environment, and what is about lives and FIRE has no meaning; see docs/agents/self_play.md."""

    difficulty: int | None = None
    """Difficulty switches; none: the default of the game."""

    action_delay: Annotated[int, Bounds(0, MAX_ACTION_DELAY)] = 0
    """Emulated frames between an action and its effect."""

    rom_path: str = ""
    """ROM file of your own; empty: the ROM of the game is searched."""

    rules: str = ""
    """TOML file with the rules of a game of your own, in a table of the game's name."""

    num_envs: Positive = 64
    """Environments N of each process."""

    total_steps: NonNegative = 10_000_000
    """Agent steps, summed over all environments and processes, after which training ends."""

    seed: Seed = 0
    """Seed of weights, actions, replay and environments."""

    device: str = "cpu"
    """Device of the network: cpu, cuda, cuda:1. With torchrun each process uses its own GPU."""

    env_device: str = ""
    """Device of the environments; empty: the device of the network."""

    network: str = "nature"
    """Torso: nature, nature32, nips, small (for CPUs), impala, impala2, btr, btr_small, mlp; vector
    for RAM; relations or objects for objects."""

    initialization: str = "orthogonal"
    """Initialization of the weights: orthogonal, he or torch."""

    learning_rate: NonNegativeFloat = 2.5e-4
    """Learning rate of the optimizer at the start of training."""

    max_grad_norm: GradNorm = 0.5
    """Global norm to which gradients are clipped; 0: no clipping."""

    gamma: Fraction = 0.99
    """Discount per step."""

    reward_rule: Literal["clip", "sign", "none"] = "clip"
    """How rewards are clipped for learning: clip (to -1..1), sign or none. Logged returns are not
    clipped."""

    episodic_life: bool = False
    """Set the discount to 0 when a life is lost. The episode and the frame stack continue."""

    img_size: Annotated[int, Bounds(1, MAX_IMG_WIDTH)] = 84
    """Height and width of an observation in pixels."""

    decorrelate_steps: int = 400

    resets: Literal["", "exact", "cached"] = ""
    """Resets: exact, as ale-py's, or cached; empty: exact on a CPU, cached on a GPU."""

    env_threads: Threads = 0
    """CPU threads that step the environments; 0: one per available core."""

    torch_threads: Threads = 0
    """CPU threads of PyTorch; 0: with the network on the CPU one per core that is idle at the start
    of the run (or OMP_NUM_THREADS), otherwise the default of PyTorch."""

    lr_scale: Literal["none", "sqrt", "linear"] = "none"
    """Scaling of the learning rate with N environments over all processes: none, sqrt (of N / 16)
    or linear."""

    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    """fp32, tf32 (matrix products on GPUs) or bf16 (convolutions and matrix products)."""

    compile: bool = False
    """Compile the network with torch.compile."""

    cuda_graphs: bool = False
    """Run acting and learning as CUDA graphs; on a GPU."""

    deterministic: bool = False
    """Use deterministic kernels only."""

    def __new__(cls: type[_Config], *_: object, **options: object) -> _Config:
        """Refuse options that do not exist, with the names that are meant."""
        check_keywords(cls.__name__, options, init_fields(cls))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Validate the options."""
        validate(self)
        if self.game.count(",") >= MAX_GAMES:
            raise InvalidArgumentError(
                f"game has {self.game.count(',') + 1} names; there are at most {MAX_GAMES}"
            )

    @property
    def continuous(self) -> bool:
        """Whether actions are (radius, angle, fire) instead of indices."""
        return False


#: Offsets of the streams of one process.
WEIGHTS_SEED, ACTING_SEED, REPLAY_SEED, EVALUATION_SEED = 0, 101, 202, 303

#: Distances between the seeds of two ranks, and of two actor processes.
RANK_SEED_STRIDE, ACTOR_SEED_STRIDE = 1_000_003, 10_007
