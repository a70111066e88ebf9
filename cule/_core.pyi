"""Types of the native module: one console, batches of environments, replay memories, and pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

SCREEN_WIDTH: int  # pixels of a scanline
RAM_BYTES: int  # of the console
MAX_SPRITES: int  # rows of observations of sprites, at most
SOUND_SAMPLES: int  # of a frame
RESET_ACTION: int  # ALE's number of the console's RESET switch; acts as no-op
HAS_JIT: bool  # whether programs can be compiled for this processor and system

# Kinds of rows of the int32 result table; all counts are per environment. A kind from
# INT_OF_PLAYERS on has a row per player: with P players, kind k begins in row
# INT_OF_PLAYERS + (k - INT_OF_PLAYERS) * P.
INT_FRAME_NUMBER: int  # emulated frames since the ROM was loaded
INT_EPISODE_FRAME_NUMBER: int  # emulated frames since the last reset
INT_EPISODE_LENGTH: int  # agent steps, of the episode so far or of the one that ended
INT_ENV_ID: int
INT_OF_PLAYERS: int
INT_REWARD: int  # reward of the step, clipped to [-1, 1] when reward_clipping is on
INT_RAW_REWARD: int  # reward of the step, never clipped
INT_LIVES: int
INT_EPISODE_RETURN: int  # unclipped, of the episode so far or of the one that ended

# Kinds of rows of the bool result table, likewise.
FLAG_TERMINATED: int
FLAG_TRUNCATED: int
FLAG_FIRST: int  # the observation is the first one of an episode
FLAG_ENDED: int  # the episode ended in this step; in SameStep mode a new one has begun
FLAG_OF_PLAYERS: int
FLAG_LIFE_LOST: int  # a life was lost in this step and the game continues

def int_rows(num_players: int) -> int: ...
def flag_rows(num_players: int) -> int: ...

KEEP_STATE: int  # in place of a seed: the environment is only reported

class UnsupportedRomError(ValueError): ...  # no supported cartridge type fits
class ModeUnreachableError(RuntimeError): ...  # a reset never got to the mode asked for
class NotReadyError(RuntimeError): ...  # no call for this state of the batch; nothing has moved
class CallOutOfTurnError(RuntimeError): ...  # of asynchronous stepping; nothing has moved
class BatchClosedError(RuntimeError): ...  # after close(), or while recv() waited
class ThreadStartError(RuntimeError): ...  # says how many threads were wanted and started

class GameSpec:
    """What a `Game` is made of: its ROM, console properties and rules.

    The bytecode programs are int32 sequences (`cule.games.compiler`). `state` holds the reset
    values of the persistent slots; slots 0, 1 and 2 are score, reward and terminal. What is marked
    with (w) can only be written.
    """

    game_id: str
    rom: bytes  # (w)
    format: Literal["auto", "NTSC", "PAL"]  # (w)
    ystart: int  # (w)
    height: int  # (w) 210 becomes 250 when the format turns out PAL
    controller_left: Literal["joystick", "paddles", "none"]  # (w)
    controller_right: Literal["joystick", "paddles", "none"]  # (w)
    swap_ports: bool  # (w)
    swap_paddles: bool  # (w)
    left_difficulty_a: bool  # (w)
    right_difficulty_a: bool  # (w)
    hmove_blanks: bool  # (w)
    legal_actions: Sequence[int]
    minimal_actions: Sequence[int]
    starting_actions: Sequence[int]
    modes: Sequence[int]
    default_mode: int
    difficulties: Sequence[int]
    paddle_max: int  # 790196 unless the game widens it
    state: Sequence[int]
    step_code: Sequence[int]
    lives_code: Sequence[int]
    setup_code: Sequence[int]
    num_players: int  # 1 unless set
    kept_slots: Sequence[int]  # of state that a reset leaves as they are
    lives_at: Sequence[int]  # where in lives_code the program of each player begins
    objects: Sequence[int]  # compiled table of objects; empty: there is none
    modifications: Sequence[int]  # compiled (cule.games.modifications); empty: there are none
    translates: bool  # the CPU runs machine code made of the program, where that is possible
    def __init__(self) -> None: ...

class Game:
    """One ROM with its console properties and rules. Immutable; shared by environments.

    Raises:
        UnsupportedRomError: no supported cartridge type fits the ROM.
        ValueError: a field of the spec is out of range; the message names it.
    """

    def __init__(self, spec: GameSpec) -> None: ...
    @property
    def game_id(self) -> str: ...
    @property
    def bankswitch(self) -> str: ...
    @property
    def format(self) -> Literal["NTSC", "PAL"]: ...
    @property
    def is_translated(self) -> bool: ...  # the CPU runs machine code made of the program
    @property
    def code_bytes(self) -> int: ...  # of machine code so far
    @property
    def rules_file(self) -> bytes: ...  # all but the ROM and modifications, for libcule
    @property
    def screen_height(self) -> int: ...
    @property
    def minimal_actions(self) -> list[int]: ...
    @property
    def legal_actions(self) -> list[int]: ...
    @property
    def rom(self) -> bytes: ...
    # C++ of the parts of a GPU kernel that runs this game only; plays so many frames from so many
    # seeds; is_alone: with one lane in a warp
    def lane_source(self, frames: int, seeds: int, most: int, is_alone: bool = False) -> str: ...

class ConsoleOptions:
    """Settings of a console, by their names in ALE."""

    random_seed: int
    system_random_seed: int
    repeat_action_probability: float
    frame_skip: int
    max_num_frames_per_episode: int
    truncate_on_loss_of_life: bool
    reward_min: int
    reward_max: int
    color_averaging: bool
    paddle_min: int  # -1: as the game has it
    paddle_max: int
    sound_obs: bool
    action_delay: int  # in frames
    def __init__(self) -> None: ...

class Console:
    """One console behind the ALE interface. Construction is ALE's loadROM and its first reset.

    Args:
        on_screen: called with `screen_rgb` before each frame.
        on_sound: called with `audio` after each frame.
    """

    def __init__(
        self,
        game: Game,
        options: ConsoleOptions,
        on_screen: Callable[[NDArray[np.uint8]], None] | None = None,
        on_sound: Callable[[NDArray[np.uint8]], None] | None = None,
    ) -> None: ...
    def reset_game(self) -> None: ...
    def act(self, action: int, paddle_strength: float = 1.0) -> int: ...
    def lives(self) -> int: ...
    def game_over(self, with_truncation: bool = True) -> bool: ...
    def game_truncated(self) -> bool: ...
    @property
    def frame_number(self) -> int: ...
    @property
    def episode_frame_number(self) -> int: ...
    mode: int  # takes effect at the next reset_game
    difficulty: int  # takes effect at the next frame
    def ram(self) -> NDArray[np.uint8]: ...  # copy, [128]
    def set_ram(self, index: int, value: int) -> None: ...
    def screen_index(self) -> NDArray[np.uint8]: ...  # [H, 160]
    def screen_rgb(self) -> NDArray[np.uint8]: ...  # [H, 160, 3]
    def screen_gray(self) -> NDArray[np.uint8]: ...  # [H, 160]
    @property
    def has_frame(self) -> bool: ...  # one was emulated since the last restore
    # [max_sprites, 11], of the last frame; ValueError without one
    def sprites(self, max_sprites: int) -> NDArray[np.int16]: ...
    def audio(self) -> NDArray[np.uint8]: ...  # [512]
    def get_state(self, include_rng: bool) -> bytes: ...
    def set_state(self, state: bytes) -> None: ...  # ValueError when not a state of this game
    def get_snapshot(self) -> bytes: ...  # everything that later calls depend on
    def set_snapshot(self, snapshot: bytes) -> None: ...  # ValueError as above

class ObsKind:
    """What observations are."""

    image: ClassVar[ObsKind]
    ram: ClassVar[ObsKind]
    objects: ClassVar[ObsKind]
    sprites: ClassVar[ObsKind]
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    @property
    def __members__(self) -> dict[str, ObsKind]: ...
    def __init__(self, value: int) -> None: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

class Autoreset:
    """When an ended environment is reset."""

    NextStep: ClassVar[Autoreset]
    SameStep: ClassVar[Autoreset]
    Disabled: ClassVar[Autoreset]
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __init__(self, value: int) -> None: ...

class BatchOptions:
    """What is the same for all environments of a batch.

    It also has the options of `cule.EnvOptions` that the emulation knows, under their names.
    """

    autoreset: Autoreset
    cached_resets: bool
    num_players: int  # of every game of the batch
    max_action_delay: int  # of all environments
    obs: ObsKind
    object_rows: int  # of observations of objects: those of the game with the most
    full_action_space: bool
    def __init__(self) -> None: ...

class Outputs:
    """The arrays that a call writes to; the tables are made here, one column for each of n.

    Args:
        obs: uint8 [n, S, H, W], [n, S, H, W, 3] or [n, 128]; [n, H, W(, 3)] with stacked=False.
            Axis 0 may be strided, the rest is contiguous.
        final_obs: as obs, for the last observations of episodes that end; rows of other
            environments are not written.
        stacked: whether observations are stacks.
        num_players: of the batch.
    """

    def __init__(
        self,
        obs: NDArray[np.uint8],
        final_obs: NDArray[np.uint8] | None = None,
        stacked: bool = True,
        num_players: int = 1,
    ) -> None: ...
    @property
    def obs(self) -> NDArray[np.uint8]: ...
    @property
    def final_obs(self) -> NDArray[np.uint8] | None: ...
    @property
    def stacked(self) -> bool: ...
    @property
    def ints(self) -> NDArray[np.int32]: ...  # [int_rows(num_players), n]
    @property
    def final_ints(self) -> NDArray[np.int32]: ...  # the same of ended episodes, with final_obs
    @property
    def flags(self) -> NDArray[np.bool_]: ...  # [flag_rows(num_players), n]

class Batch:
    """N environments stepped together by a persistent pool of threads. Calls release the GIL.

    It trusts its caller with the range of options and actions, and checks what else memory depends
    on: shapes, dtypes, indices. Indices and env_ids name environments.
    """

    def __init__(
        self,
        games: Sequence[Game],
        game_index: NDArray[np.int32],  # [N], which of games
        modes: NDArray[np.int32],  # [N]
        difficulties: NDArray[np.int32],  # [N]
        action_delays: NDArray[np.int32],  # [N], in frames
        modifications: NDArray[np.int32],  # [N], number among those of the game; 0: none
        num_modifications: NDArray[np.int32],  # [N], from that one on; each episode draws one
        options: BatchOptions,
    ) -> None: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def has_threads(self) -> bool: ...  # besides the caller
    @property
    def state_size(self) -> int: ...  # bytes of a snapshot
    @property
    def num_in_flight(self) -> int: ...  # environments sent and not received
    @property
    def is_compiling(self) -> bool: ...  # never
    # mask: bool [N] or None (all). seeds: int64 [N]; -1 lets the random streams continue (exact).
    def reset(
        self, mask: NDArray[np.bool_] | None, seeds: NDArray[np.int64], out: Outputs
    ) -> None: ...
    # Every environment plays uniform{0..max_steps} steps of random actions (counter-based, keyed by
    # seed).
    def decorrelate(self, max_steps: int, seed: int, out: Outputs) -> None: ...
    # actions: int32 [N] (indices into the action set), or with `continuous` float32 [N, 4] (x, y,
    # fire, strength). NotReadyError before the first reset or, with Disabled, for an environment
    # whose episode has ended; nothing has moved.
    def step(self, actions: NDArray[np.int32] | NDArray[np.float32], out: Outputs) -> None: ...
    # after set_state or a partial reset: current observations, numbers and flags
    def observe(self, out: Outputs) -> None: ...
    # Asynchronous stepping. send_reset queues resets of all environments; send queues steps of
    # env_ids; recv waits for as many environments as out has rows, in the order in which they
    # finish (INT_ENV_ID says which).
    def send_reset(self, seeds: NDArray[np.int64]) -> None: ...
    def send(
        self, actions: NDArray[np.int32] | NDArray[np.float32], env_ids: NDArray[np.int32]
    ) -> None: ...
    def recv(self, out: Outputs) -> None: ...
    def ram(self) -> NDArray[np.uint8]: ...  # live read-only view [N, 128]
    def lives(self) -> NDArray[np.int32]: ...  # live read-only view [N], or [N, num_players]
    def episode_frames(self) -> NDArray[np.int32]: ...  # live read-only view [N]
    # [n, state_size]
    def get_state(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]: ...
    # ValueError for a snapshot that cannot be restored; nothing has changed
    def set_state(self, states: NDArray[np.uint8], indices: NDArray[np.int64]) -> None: ...
    # [num_reset_states, state_size]
    def reset_states(self, index: int) -> NDArray[np.uint8]: ...
    # kind "index" or "gray": [n, H, 160]; "rgb": [n, H, 160, 3]; ValueError unless the screens have
    # one height
    def screens(self, kind: str, indices: NDArray[np.int64]) -> NDArray[np.uint8]: ...
    def close(self) -> None: ...  # joins the threads; idempotent
    @property
    def has_reset(self) -> bool: ...  # every environment has an episode
    # action_table: int32 [N, actions], indices into the environment's own action set; [N, 0] where
    # actions are joysticks
    def xla_target(self, action_table: NDArray[np.int32]) -> XlaTarget: ...

class XlaTarget:
    """Lets calls of XLA name a batch by a number, and keeps the batch; see `xla_handlers`."""

    @property
    def id(self) -> int: ...

# capsules for jax.ffi.register_ffi_target, by name; csrc/bindings/bind_xla.cpp has their arguments
def xla_handlers() -> dict[str, object]: ...

# compiler, flags, version, cuda ("not built in" or architectures)
def build_config() -> dict[str, str]: ...

# "2K", "F8", ...; ValueError when no type fits
# registers that the parts of a game's GPU kernel may use; entries of a log that they leave to the
# interpreter; C++ of what all such kernels share
LANE_PART_REGISTERS: int
LANE_QUIET_ENTRIES: int

def lane_kernel_source(is_alone: bool) -> str: ...

# Options that a snapshot depends on; the others have defaults. None: not a snapshot.
class EnvBytes:
    @property
    def touched(self) -> int: ...
    @property
    def mapped(self) -> int: ...
    @property
    def snapshot(self) -> int: ...

def env_bytes(options: BatchOptions, height: int) -> EnvBytes: ...
def snapshot_options(row: NDArray[np.uint8]) -> BatchOptions | None: ...
def detect_bankswitch(rom: bytes) -> str: ...

# [256, 4] by colour register value: r, g, b, gray
def palette(format: Literal["NTSC", "PAL"]) -> NDArray[np.uint8]: ...

# the action of a joystick position (x to the right, y up) and a button, against the threshold
def joystick_action(x: float, y: float, fire: float, threshold: float) -> int: ...

# Pieces for tests.
def run_program(
    code: Sequence[int], slots: Sequence[int], ram: bytes, cart_ram: bytes
) -> tuple[int, list[int]]: ...
def objects_of(words: Sequence[int], ram: bytes) -> NDArray[np.int16]: ...  # [K, 6]
def area_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]: ...

# Flags of a cell (cule.replay.transitions).
CELL_FIRST: int  # its frame starts an episode
CELL_TERMINATED: int  # by its action
CELL_TRUNCATED: int
CELL_LIFE_LOST: int
CELL_INVALID: int  # the environment ignored its action

BLOCK_LEAVES: int  # leaves of a block of PrioritySums
MASS_SCALE: int  # mass of a priority of 1

# The rest belongs to cule.replay.native. Arrays are views of tensors, which are kept alive;
# observations and actions have the dtypes of the memory. `rules`: the options stack, pad, gamma,
# reward_clipping, terminal_on_life_loss and autoreset_mode.

class ReplayCells:
    """Flat memory of cells."""

    def __init__(
        self,
        frames: NDArray[np.generic],  # [cells, ...]
        actions: NDArray[np.generic],  # [cells, ...]
        rewards: NDArray[np.float32],  # [cells]
        flags: NDArray[np.uint8],  # [cells]
        rules: dict[str, object],
    ) -> None: ...
    # obs, actions, next_obs, numbers: float32 [4, B], returns, discounts, usable (0 or 1), unset
    def gather(
        self,
        windows: NDArray[np.int64],  # [B, S + n]
        n_step: int,
    ) -> tuple[NDArray[np.generic], ...]: ...

class PrioritySums:
    """Masses of leaves, summed by blocks, and these sums by blocks, up to one number."""

    def __init__(
        self,
        leaves: NDArray[np.int64],  # [128 * blocks + 1], the last one is outside all sums
        block_sums: NDArray[np.int64],  # [blocks]
        max_mass: int,
    ) -> None: ...
    def total(self) -> int: ...
    def rebuild(self) -> None: ...  # recomputes all sums from the leaves
    def assign(self, index: NDArray[np.int64], masses: NDArray[np.int64]) -> None: ...
    def sample(self, fractions: NDArray[np.float64]) -> NDArray[np.int64]: ...  # leaves

class ReplayRing:
    """A ring of timesteps of environments."""

    def __init__(
        self,
        frames: NDArray[np.generic],  # [cells + finals ..., ...]; cells are slots * num_envs
        actions: NDArray[np.generic],  # [cells, ...]
        rewards: NDArray[np.float32],  # [cells]
        flags: NDArray[np.uint8],  # [cells]
        final_slot: NDArray[np.int32],  # [cells], or [0] without final frames
        final_count: NDArray[np.int64],  # [1]
        head: NDArray[np.int64],  # [1]
        num_envs: int,
        num_finals: int,
        rules: dict[str, object],
    ) -> None: ...
    # Arrays [N, ...] or [T, N, ...]. Returns False and writes nothing if one does not fit.
    # frames: None if they are in place; final_frames: None if none are kept.
    def write(
        self,
        frames: object,
        actions: object,
        rewards: object,
        terminated: object,
        truncated: object,
        life_lost: object,
        first: object,
        final_frames: object,
        /,
    ) -> bool: ...
    def observe(self) -> NDArray[np.generic]: ...
    # Results here and below: obs, actions, next_obs, numbers, ids; numbers are float32 [4, B],
    # returns, discounts, weights, probabilities. `uniform` are random numbers in [0, 1).
    def sample(
        self, uniform: NDArray[np.float64], n_step: int
    ) -> tuple[NDArray[np.generic], ...]: ...
    def sample_distinct(
        self,
        key: NDArray[np.int64],  # [1], as the following two; updated
        position: NDArray[np.int64],
        order_head: NDArray[np.int64],
        uniform: float,
        count: int,
        n_step: int,
    ) -> NDArray[np.int64]: ...
    def gather(self, ids: NDArray[np.int64], n_step: int) -> tuple[NDArray[np.generic], ...]: ...
    # The weights of the following two are 0 or 1; `bases` gets the bases of importance weights.
    def sample_prioritized(
        self,
        sums: PrioritySums,
        uniform: NDArray[np.float64],  # [B]
        bases: NDArray[np.float64],  # [B], written
        n_step: int,
    ) -> tuple[NDArray[np.generic], ...]: ...
    def gather_prioritized(
        self,
        sums: PrioritySums,
        ids: NDArray[np.int64],
        bases: NDArray[np.float64],  # [B], written
        n_step: int,
    ) -> tuple[NDArray[np.generic], ...]: ...
    def follow_head(
        self,
        sums: PrioritySums,
        num_steps: int,
        priorities: NDArray[np.generic] | None,  # [T * N], float32 or float64; None if none is 0
        powers: NDArray[np.float64],
        n_step: int,
    ) -> None: ...
    def update_priorities(
        self,
        sums: PrioritySums,
        ids: object,  # int64 [B]
        priorities: NDArray[np.generic],  # float32 or float64
        powers: NDArray[np.float64],
        n_step: int,
        largest: NDArray[np.float64],  # [1]
        num_rejected: NDArray[np.int64],  # [1]
        limit: float,
    ) -> None: ...

# Whether these are int64 [B] and float32 or float64 [B], contiguous, with B above 0.
def are_priorities(ids: object, priorities: object) -> bool: ...

# Replaces invalid priorities by `fallback`; updates the largest and counts the invalid ones.
def accept_priorities(
    largest: NDArray[np.float64],  # [1]
    num_rejected: NDArray[np.int64],  # [1]
    priorities: NDArray[np.generic],  # float32 or float64
    fallback: float,
    limit: float,
    accepted: NDArray[np.float64],  # written
) -> None: ...

# Replaces nonzero weights in the numbers of a batch by their powers over the largest of them.
def finish_weights(numbers: NDArray[np.float32], powers: NDArray[np.float64]) -> None: ...
