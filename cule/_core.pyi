"""Types of the native module: one console, batches of consoles, replay memories, and pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# Rows of the int32 result table [INT_ROWS, n]; all counts are per console.
INT_REWARD: int  # reward of the step, clipped to [-1, 1] when reward_clipping is on
INT_RAW_REWARD: int  # reward of the step, never clipped
INT_LIVES: int
INT_FRAME_NUMBER: int  # emulated frames since the ROM was loaded
INT_EPISODE_FRAME_NUMBER: int  # emulated frames since the last reset
# unclipped return of the episode so far; of the ended one where it ended
INT_EPISODE_RETURN: int
INT_EPISODE_LENGTH: int  # agent steps, likewise
INT_ENV_ID: int
INT_ROWS: int

# Rows of the bool result table [FLAG_ROWS, n].
FLAG_TERMINATED: int
FLAG_TRUNCATED: int
FLAG_LIFE_LOST: int  # a life was lost in this step and the game goes on
FLAG_FIRST: int  # the observation is the first one of an episode
# the episode ended in this step (a reset follows, or has happened in SameStep mode)
FLAG_ENDED: int
FLAG_ROWS: int

class UnsupportedRomError(ValueError): ...  # no supported cartridge type fits
class ModeUnreachableError(RuntimeError): ...  # a reset never got to the mode asked for

# the call does not fit the state of the batch; nothing has moved
class NotReadyError(RuntimeError): ...

class Game:
    """One ROM with its console properties and game rules. Immutable; shared by consoles.

    The bytecode programs are int32 sequences (`cule.games.compiler`). `state` holds the reset
    values of the persistent slots; slots 0, 1 and 2 are score, reward and terminal.

    Raises:
        UnsupportedRomError: no supported cartridge type fits the ROM.
        ValueError: an argument is out of range; the message names it.
    """

    def __init__(
        self,
        *,
        game_id: str,
        rom: bytes,
        format: Literal["auto", "NTSC", "PAL"],
        ystart: int,
        height: int,  # 210 becomes 250 when the format turns out PAL
        controller_left: Literal["joystick", "paddles", "none"],
        controller_right: Literal["joystick", "paddles", "none"],
        swap_ports: bool,
        swap_paddles: bool,
        left_difficulty_a: bool,
        right_difficulty_a: bool,
        hmove_blanks: bool,
        legal_actions: Sequence[int],
        minimal_actions: Sequence[int],
        starting_actions: Sequence[int],
        modes: Sequence[int],
        default_mode: int,
        difficulties: Sequence[int],
        paddle_max: int,  # 790196 unless the game widens it
        state: Sequence[int],
        step_code: Sequence[int],
        lives_code: Sequence[int],
        setup_code: Sequence[int],
    ) -> None: ...
    @property
    def game_id(self) -> str: ...
    @property
    def bankswitch(self) -> str: ...
    @property
    def format(self) -> Literal["NTSC", "PAL"]: ...
    @property
    def code_bytes(self) -> int: ...  # of translated code so far; 0 where ROMs are interpreted
    @property
    def screen_height(self) -> int: ...
    @property
    def minimal_actions(self) -> list[int]: ...
    @property
    def legal_actions(self) -> list[int]: ...
    @property
    def rom(self) -> bytes: ...
    # C++ of a GPU kernel that runs this game only; plays so many frames from so many seeds;
    # is_alone: with one lane a warp
    def lane_source(self, frames: int, seeds: int, most: int, is_alone: bool = False) -> str: ...

class Console:
    """One console behind the ALE interface. Construction is ALE's loadROM, first reset included."""

    def __init__(
        self,
        game: Game,
        *,
        random_seed: int = 0,
        system_random_seed: int = 4753849,
        repeat_action_probability: float = 0.25,
        frame_skip: int = 1,
        max_num_frames_per_episode: int = 0,
        truncate_on_loss_of_life: bool = False,
        reward_min: int = -(2**31),
        reward_max: int = 2**31 - 1,
        color_averaging: bool = False,
        paddle_min: int = -1,
        paddle_max: int = -1,
        sound_obs: bool = False,
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
    def audio(self) -> NDArray[np.uint8]: ...  # [512]
    def get_state(self, include_rng: bool) -> bytes: ...
    # ValueError when not a state of this game
    def set_state(self, state: bytes) -> None: ...

class Batch:
    """N consoles stepped together by a persistent pool of threads. Calls release the GIL."""

    def __init__(
        self,
        games: Sequence[Game],
        game_index: NDArray[np.int32],  # [N], which of games
        modes: NDArray[np.int32],  # [N]
        difficulties: NDArray[np.int32],  # [N]
        *,
        num_threads: int,  # 0: min(N, hardware threads)
        thread_affinity_offset: int,  # -1: no pinning
        frameskip: int,
        repeat_action_probability: float,
        max_num_frames_per_episode: int,
        stack_num: int,
        img_height: int,
        img_width: int,
        grayscale: bool,
        maxpool: bool,
        noop_max: int,
        use_fire_reset: bool,
        episodic_life: bool,
        life_loss_info: bool,
        reward_clipping: bool,
        autoreset: Literal["NextStep", "SameStep", "Disabled"],
        cached_resets: bool,
        num_reset_states: int,
        ram_obs: bool,  # observations are uint8 [128] per console
        full_action_space: bool,
        continuous: bool,
        continuous_action_threshold: float,
    ) -> None: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def state_size(self) -> int: ...  # bytes a row of get_state
    @property
    def console_bytes(self) -> int: ...  # memory held per console
    # obs: uint8 [n, S, H, W] or [n, S, H, W, 3] or [n, 128] (stacked=True), [n, H, W(,
    # 3)] (stacked=False);
    # axis 0 may be strided, the rest contiguous. ints: int32 [INT_ROWS, n]. flags: bool
    # [FLAG_ROWS, n].
    # mask: bool [N] or None (all). seeds: int64 [N], -1 keeps the random streams
    # (exact) going.
    def reset(
        self,
        mask: NDArray[np.bool_] | None,
        seeds: NDArray[np.int64],
        obs: NDArray[np.uint8],
        ints: NDArray[np.int32],
        flags: NDArray[np.bool_],
        stacked: bool = True,
    ) -> None: ...
    # Every console plays uniform{0..max_steps} steps of random actions (counter-based,
    # keyed by seed).
    def decorrelate(
        self,
        max_steps: int,
        seed: int,
        obs: NDArray[np.uint8],
        ints: NDArray[np.int32],
        flags: NDArray[np.bool_],
        stacked: bool = True,
    ) -> None: ...
    # actions: int32 [n] (indices into the action set) or float32 [n, 4] (x, y, fire,
    # strength).
    # final_obs (as obs) and final_ints (as ints) receive the rows of consoles that
    # ended; others untouched.
    # Checked before anything moves: ValueError for an index out of range, RuntimeError
    # before the first reset
    # or, in Disabled mode, for a console whose episode has ended.
    def step(
        self,
        actions: NDArray[Any],
        obs: NDArray[np.uint8],
        ints: NDArray[np.int32],
        flags: NDArray[np.bool_],
        final_obs: NDArray[np.uint8] | None = None,
        final_ints: NDArray[np.int32] | None = None,
        stacked: bool = True,
    ) -> None: ...
    # Asynchronous stepping. send_reset queues resets of all consoles (seed -2: it is reported as
    # it is); send queues steps of env_ids; recv waits for n finished consoles (in completion order)
    # and fills rows 0..n-1 (INT_ENV_ID says which console).
    def send_reset(self, seeds: NDArray[np.int64]) -> None: ...
    def send(self, actions: NDArray[Any], env_ids: NDArray[np.int32]) -> None: ...
    def recv(
        self,
        obs: NDArray[np.uint8],
        ints: NDArray[np.int32],
        flags: NDArray[np.bool_],
        final_obs: NDArray[np.uint8] | None = None,
        final_ints: NDArray[np.int32] | None = None,
    ) -> None: ...
    def ram(self) -> NDArray[np.uint8]: ...  # live read-only view [N, 128]
    def lives(self) -> NDArray[np.int32]: ...  # live read-only view [N]
    def episode_frames(self) -> NDArray[np.int32]: ...  # live read-only view [N]
    # [n, state_size]
    def get_state(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]: ...
    # [num_reset_states, state_size]
    def reset_states(self, console: int) -> NDArray[np.uint8]: ...
    def set_state(self, states: NDArray[np.uint8], indices: NDArray[np.int64]) -> None: ...
    # after set_state / partial reset: current observations, numbers and flags of all
    # consoles
    def observe(
        self,
        obs: NDArray[np.uint8],
        ints: NDArray[np.int32],
        flags: NDArray[np.bool_],
        stacked: bool = True,
    ) -> None: ...
    # kind index/gray: [n, H, 160]; rgb: [n, H, 160, 3]; consoles must share one screen
    # height (ValueError)
    def screens(
        self, kind: Literal["index", "gray", "rgb"], indices: NDArray[np.int64]
    ) -> NDArray[np.uint8]: ...
    def close(self) -> None: ...  # joins the threads; idempotent

# compiler, flags, version, cuda ("not built in" or architectures)
def build_config() -> dict[str, str]: ...

# "2K", "F8", ...; ValueError when no type fits
def detect_bankswitch(rom: bytes) -> str: ...

# [256, 4] by colour register value: r, g, b, gray
def palette(format: Literal["NTSC", "PAL"]) -> NDArray[np.uint8]: ...

# Pieces for tests.
def run_program(
    code: Sequence[int], slots: Sequence[int], ram: bytes, cart_ram: bytes
) -> tuple[int, list[int]]: ...
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
        frames: NDArray[Any],  # [cells, ...]
        actions: NDArray[Any],  # [cells, ...]
        rewards: NDArray[np.float32],  # [cells]
        flags: NDArray[np.uint8],  # [cells]
        rules: dict[str, object],
    ) -> None: ...
    # obs, actions, next_obs, numbers: float32 [4, B], returns, discounts, usable (0 or 1), unset
    def gather(
        self,
        windows: NDArray[np.int64],  # [B, S + n]
        n_step: int,
    ) -> tuple[NDArray[Any], ...]: ...

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
        frames: NDArray[Any],  # [cells + finals ..., ...]; cells are slots * num_envs
        actions: NDArray[Any],  # [cells, ...]
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
    def observe(self) -> NDArray[Any]: ...
    # Results here and below: obs, actions, next_obs, numbers, ids; numbers are float32 [4, B],
    # returns, discounts, weights, probabilities. `uniform` are random numbers in [0, 1).
    def sample(self, uniform: NDArray[np.float64], n_step: int) -> tuple[NDArray[Any], ...]: ...
    def sample_distinct(
        self,
        key: NDArray[np.int64],  # [1], as the following two; updated
        position: NDArray[np.int64],
        order_head: NDArray[np.int64],
        uniform: float,
        count: int,
        n_step: int,
    ) -> NDArray[np.int64]: ...
    def gather(self, ids: NDArray[np.int64], n_step: int) -> tuple[NDArray[Any], ...]: ...
    # The weights of the following two are 0 or 1; `bases` gets the bases of importance weights.
    def sample_prioritized(
        self,
        sums: PrioritySums,
        uniform: NDArray[np.float64],  # [B]; [3 * B] for a mixture: position, coin, position
        bases: NDArray[np.float64],  # [B], written
        n_step: int,
        uniform_mixture: float,
    ) -> tuple[NDArray[Any], ...]: ...
    def gather_prioritized(
        self,
        sums: PrioritySums,
        ids: NDArray[np.int64],
        bases: NDArray[np.float64],  # [B], written
        n_step: int,
        uniform_mixture: float,
    ) -> tuple[NDArray[Any], ...]: ...
    def follow_head(
        self,
        sums: PrioritySums,
        num_steps: int,
        priorities: NDArray[Any] | None,  # [T * N], float32 or float64; None if none is 0
        powers: NDArray[np.float64],
        n_step: int,
    ) -> None: ...
    def update_priorities(
        self,
        sums: PrioritySums,
        ids: object,  # int64 [B]
        priorities: NDArray[Any],  # float32 or float64
        powers: NDArray[np.float64],
        n_step: int,
    ) -> None: ...

# Whether these are int64 [B] and float32 or float64 [B], contiguous, with B above 0.
def are_priorities(ids: object, priorities: object) -> bool: ...

# Replaces invalid priorities by `fallback`; updates the largest and counts the invalid ones.
def accept_priorities(
    largest: NDArray[np.float64],  # [1]
    num_rejected: NDArray[np.int64],  # [1]
    priorities: NDArray[Any],  # float32 or float64
    fallback: float,
    limit: float,
    accepted: NDArray[np.float64],  # written
) -> None: ...

# Replaces nonzero weights in the numbers of a batch by their powers over the largest of them.
def finish_weights(numbers: NDArray[np.float32], powers: NDArray[np.float64]) -> None: ...
