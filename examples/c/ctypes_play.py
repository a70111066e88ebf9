"""Random play through libcule and ctypes, without the package cule: the same as random_play.c.

``python ctypes_play.py LIBRARY ROM RULES NUM_ENVS STEPS``: LIBRARY is ``libcule.so``, and
``cule roms rules pong`` writes ``pong.rules``. Structures are those of ``csrc/capi/cule.h``.
"""

from __future__ import annotations

import ctypes
import sys
import zlib
from pathlib import Path

INTS = ctypes.POINTER(ctypes.c_int32)
BYTES = ctypes.POINTER(ctypes.c_uint8)


class Options(ctypes.Structure):
    """cule_options."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("repeat_action_probability", ctypes.c_float),
        *(
            (name, ctypes.c_int32)
            for name in (
                *("num_threads", "thread_affinity_offset", "frameskip"),
                *("max_num_frames_per_episode", "noop_max", "stack_num", "img_height", "img_width"),
                *("max_sprites", "num_reset_states", "mode", "difficulty", "obs_type"),
                *("autoreset_mode", "grayscale", "maxpool", "use_fire_reset", "full_action_space"),
                *("episodic_life", "life_loss_info", "reward_clipping", "fire_after_life_loss"),
                *("cached_resets", "action_delay", "low_memory"),
            )
        ),
    )


class Info(ctypes.Structure):
    """cule_info."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("num_envs", ctypes.c_int32),
        ("num_threads", ctypes.c_int32),
        ("num_actions", ctypes.c_int32),
        ("screen_height", ctypes.c_int32),
        ("obs_dims", ctypes.c_int32),
        ("obs_shape", ctypes.c_int32 * 4),
        ("obs_item_bytes", ctypes.c_int32),
        ("obs_bytes", ctypes.c_size_t),
        ("state_bytes", ctypes.c_size_t),
    )


class Results(ctypes.Structure):
    """cule_results."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("obs", ctypes.c_void_p),
        ("obs_bytes", ctypes.c_size_t),
        ("final_obs", ctypes.c_void_p),
        *((name, INTS) for name in ("reward", "raw_reward", "lives", "frame_number")),
        *((name, INTS) for name in ("episode_frame_number", "episode_return", "episode_length")),
        *((name, BYTES) for name in ("terminated", "truncated", "life_lost", "first", "ended")),
    )


class Library:
    """libcule. Its functions raise a RuntimeError with the message of the library."""

    def __init__(self, path: str) -> None:
        """Load the library of this path."""
        self._library = ctypes.CDLL(path)
        self._library.cule_last_error.restype = ctypes.c_char_p
        self._library.cule_version.restype = ctypes.c_char_p

    def version(self) -> str:
        """The version of the library."""
        text: bytes = self._library.cule_version()
        return text.decode()

    def call(self, name: str, *arguments: object) -> None:
        """Call a function that returns a status; sizes are given as ``ctypes.c_size_t``."""
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"status {status}: {self._library.cule_last_error().decode()}")

    def make_game(self, rom: bytes, rules: bytes) -> ctypes.c_void_p:
        """cule_game_create; destroy it with `destroy`."""
        game = ctypes.c_void_p()
        sizes = ctypes.c_size_t(len(rom)), ctypes.c_size_t(len(rules))
        self.call("cule_game_create", rom, sizes[0], rules, sizes[1], ctypes.byref(game))
        return game

    def destroy(self, kind: str, handle: ctypes.c_void_p) -> None:
        """Destroy a game or batch."""
        getattr(self._library, f"cule_{kind}_destroy")(handle)

    def default_options(self) -> Options:
        """cule_options_init."""
        options = Options()
        size = ctypes.c_size_t(ctypes.sizeof(options))
        self.call("cule_options_init", ctypes.byref(options), size)
        return options


class Batch:
    """A batch and the arrays of its results."""

    def __init__(
        self, library: Library, game: ctypes.c_void_p, num_envs: int, options: Options
    ) -> None:
        """Make the environments; destroy them with `close`."""
        self.library, self.num_envs = library, num_envs
        self.handle, self.info = ctypes.c_void_p(), Info(size=ctypes.sizeof(Info))
        made = ctypes.byref(self.handle)
        library.call("cule_batch_create", game, num_envs, ctypes.byref(options), made)
        library.call("cule_batch_info", self.handle, ctypes.byref(self.info))
        self.obs = (ctypes.c_uint8 * (num_envs * self.info.obs_bytes))()
        self.final_obs = (ctypes.c_uint8 * len(self.obs))()
        self.results = Results(
            size=ctypes.sizeof(Results),
            obs=ctypes.addressof(self.obs),
            obs_bytes=len(self.obs),
            final_obs=ctypes.addressof(self.final_obs),
        )
        self.numbers: dict[str, ctypes.Array[ctypes.c_int32] | ctypes.Array[ctypes.c_uint8]] = {}
        for name, pointer, *_ in Results._fields_:
            if pointer in (INTS, BYTES):
                number = ctypes.c_int32 if pointer is INTS else ctypes.c_uint8
                self.numbers[name] = array = (number * num_envs)()
                setattr(self.results, name, array)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of this batch whose last argument is where results go."""
        self.library.call(name, self.handle, *arguments, ctypes.byref(self.results))

    def reset(self, first_seed: int) -> None:
        """cule_reset of all environments: environment i gets the seed ``first_seed + i``."""
        seeds = range(first_seed, first_seed + self.num_envs)
        self.call("cule_reset", None, (ctypes.c_int64 * self.num_envs)(*seeds))

    def step(self, actions: list[int]) -> None:
        """cule_step."""
        self.call("cule_step", (ctypes.c_int32 * self.num_envs)(*actions))

    def get_state(self) -> ctypes.Array[ctypes.c_uint8]:
        """cule_get_state of all environments."""
        kind = ctypes.c_uint8 * (self.num_envs * self.info.state_bytes)
        rows: ctypes.Array[ctypes.c_uint8] = kind()
        self._states("cule_get_state", rows)
        return rows

    def set_state(self, rows: ctypes.Array[ctypes.c_uint8]) -> None:
        """cule_set_state of all environments."""
        self._states("cule_set_state", rows)

    def close(self) -> None:
        """cule_batch_destroy."""
        self.library.destroy("batch", self.handle)

    def _states(self, name: str, rows: ctypes.Array[ctypes.c_uint8]) -> None:
        sizes = ctypes.c_size_t(self.num_envs), ctypes.c_size_t(len(rows))
        self.library.call(name, self.handle, None, sizes[0], rows, sizes[1])


def main() -> None:
    """Play and print what random_play.c prints."""
    path, rom, rules, num_envs, steps = sys.argv[1:]
    library = Library(path)
    options = library.default_options()
    options.repeat_action_probability = 0.25
    options.autoreset_mode = 1  # CULE_SAME_STEP
    game = library.make_game(Path(rom).read_bytes(), Path(rules).read_bytes())
    batch = Batch(library, game, int(num_envs), options)
    library.destroy("game", game)  # the batch keeps it
    numbers = batch.numbers
    random, checksum, reward, episodes = 1, 1, 0, 0

    def add_results() -> None:
        nonlocal checksum
        names = ("reward", "lives", "terminated", "truncated")
        for array in (batch.obs, *(numbers[name] for name in names)):
            checksum = zlib.adler32(array, checksum)

    batch.reset(0)
    add_results()
    actions = [0] * batch.num_envs
    for _ in range(int(steps)):
        for env in range(batch.num_envs):
            random = (random * 1664525 + 1013904223) % 2**32
            actions[env] = (random >> 16) % batch.info.num_actions
        batch.step(actions)
        add_results()
        reward += sum(numbers["reward"])
        ends = zip(numbers["terminated"], numbers["truncated"], strict=True)
        episodes += sum(a or b for a, b in ends)
    states = batch.get_state()
    batch.step(actions)
    batch.set_state(states)
    batch.call("cule_observe")
    add_results()
    batch.close()
    version = library.version()
    print(f"libcule {version}: {episodes} episodes, reward {reward}, checksum {checksum:08x}")


if __name__ == "__main__":
    main()
