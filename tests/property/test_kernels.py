"""The CUDA kernels, run by the lockstep shim, equal the CPU back end: results and snapshots.

The sources that nvcc compiles run thread by thread. Observations, numbers and flags are compared
after every step, and snapshots at intervals.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cule
from cule import _core
from cule.envs import backend, cuda_batch
from cule.envs.device_memory import log_capacity, pool_slots
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch
from cule.errors import InvalidArgumentError, InvalidStateError, OutOfDeviceMemoryError
from cule.games import load_games
from cule.games.schema import LOG_ENTRIES
from tests.support import kernels
from tests.support.cases import long_except
from tests.support.kernels import Pair, module, pop_instruction_counts
from tests.support.picture_programs import changing_program, late_reader_program
from tests.support.programs import core_game
from tests.support.random_programs import (
    CARTRIDGES,
    random_bytes_image,
    random_image,
    random_start_image,
)

pytestmark = pytest.mark.ale

STEPS = 120
WITHOUT_PIXELS: dict[str, Any] = {"obs_type": "ram", "num_reset_states": 2}

#: Every kind of cartridge, paddles, both formats, games with short frames, programs in RAM.
GAMES = {
    "pong": (5, 8),
    "breakout": (9, 16),
    "ms_pacman": (3, 32),
    "seaquest": (6, 4),
    "freeway": (3, 32),
    "riverraid": (4, 8),
    "montezuma_revenge": (3, 16),  # E0
    "robotank": (3, 32),  # FE
    "pitfall2": (3, 8),  # DPC
    "elevator_action": (3, 16),  # F8SC
    "darkchambers": (3, 8),
    "journey_escape": (3, 32),
    "air_raid": (2, 32),  # PAL
    "up_n_down": (3, 8),  # runs code in RAM
    "atlantis": (2, 8),
}


@pytest.mark.parametrize(
    ("game", "num_envs", "lanes"), long_except([(g, *v) for g, v in GAMES.items()], every=8)
)
def test_games(game: str, num_envs: int, lanes: int) -> None:
    pair = Pair(game, num_envs, lanes=lanes, warps=1 + num_envs % 2)
    pair.run(STEPS, seed=num_envs)
    pair.close()


def test_frames_without_an_end() -> None:
    """A program that thinks for half a million cycles with the screen off."""
    pair = Pair("tic_tac_toe_3d", 3, lanes=4, mode=1, num_reset_states=1)
    pair.run(40, seed=3)
    pair.close()


@pytest.mark.parametrize("lanes", long_except([8, 16, 32], 16))
def test_several_games_in_one_batch(lanes: int) -> None:
    games = (("pong", 3), ("montezuma_revenge", 2), ("breakout", 9), ("robotank", 1), ("pong", 34))
    pair = Pair(games, sum(count for _, count in games), lanes=lanes, warps=2)
    pair.run(8, seed=lanes)
    pair.close()


OPTIONS: dict[str, dict[str, Any]] = {
    "same_step": {"autoreset_mode": "SameStep", "episodic_life": True},
    "same_step_short": {"autoreset_mode": "SameStep", "max_num_frames_per_episode": 10},
    "next_step_short": {"max_num_frames_per_episode": 10, "life_loss_info": True},
    "fire": {"fire_after_life_loss": True, "autoreset_mode": "SameStep", "episodic_life": True},
    "fire_frameskip_2": {"fire_after_life_loss": True, "frameskip": 2, "maxpool": False},
    "sticky": {"repeat_action_probability": 0.25},
    "action_delay": {
        "action_delay": [0, 1, 4, 9, 30, 255],
        "repeat_action_probability": 0.25,
        "max_num_frames_per_episode": 150,
        "fire_after_life_loss": True,
    },
    "rgb": {"grayscale": False, "stack_num": 2},
    "ram": {"obs_type": "ram"},
    "objects": {"obs_type": "objects", "stack_num": 3, "autoreset_mode": "SameStep"},
    "sprites": {"obs_type": "sprites", "stack_num": 2, "max_sprites": 9},
    "frameskip_1": {"frameskip": 1},
    "frameskip_5": {"frameskip": 5, "reward_clipping": False},
    "no_maxpool": {"maxpool": False},
    "size": {"img_height": 97, "img_width": 71, "stack_num": 3},
    "full_size": {"img_height": 210, "img_width": 160, "stack_num": 1},
    "no_noops": {"noop_max": 0, "use_fire_reset": False, "full_action_space": True},
    "continuous": {"continuous": True, "continuous_action_threshold": 0.3},
    "mode": {"mode": 4, "difficulty": 1},
    "modifications": {
        "modifications": [
            "random_brick_colors, drift_left, slippery_controls, sparse_reward(frames=7)",
            *(
                None,
                "paddle_color_of_episode",
                "open_tunnel",
                "brick_color | open_tunnel | original",
            ),
            "brick_rows(first=1, last=3), paddle_size(size=8)",
        ],
        "num_reset_states": 3,
        "max_num_frames_per_episode": 90,
    },
}


@pytest.mark.parametrize("name", long_except(OPTIONS, "action_delay", "modifications", every=8))
def test_options(name: str) -> None:
    pair = Pair("breakout", 6, lanes=4, **OPTIONS[name])
    pair.run(50)
    pair.close()


@pytest.mark.parametrize(
    "writer", long_except([random_image, random_bytes_image, random_start_image], random_image)
)
@pytest.mark.parametrize("kind", long_except(CARTRIDGES, every=6))
def test_random_programs(kind: str, writer: Callable[[int, str], bytes]) -> None:
    """Undocumented opcodes, code in RAM and TIA space, short frames, processors that jam."""
    for seed in range(8):
        game = core_game(writer(seed, kind))
        keywords = {"frameskip": 2, "max_num_frames_per_episode": 24, "num_reset_states": 2}
        keywords |= {"full_action_space": True}
        pair = Pair("pong", 3, lanes=2, cartridge=game, **keywords)
        pair.run(20, seed=seed, snapshots_every=4)
        pair.close()


@pytest.mark.parametrize("seed", long_except(range(24), every=4))
def test_latches_that_are_owed(seed: int) -> None:
    """Read or not for stretches of frames, with and without CXCLR, in short, long and busy ones."""
    lanes, frameskip = (1, 2)[seed % 2], (1, 3)[seed // 2 % 2]
    pair = Pair(
        "pong",
        3,
        lanes=lanes,
        cartridge=core_game(changing_program(seed)),
        **WITHOUT_PIXELS,
        frameskip=frameskip,
    )
    pair.run(150, seed=seed, snapshots_every=7)
    pair.close()


@pytest.mark.parametrize("frame", [200, 201])
def test_latches_that_are_read_late(frame: int) -> None:
    """Of a register that was not read before."""
    pair = Pair(
        "pong",
        1,
        lanes=1,
        cartridge=core_game(late_reader_program(frame)),
        **WITHOUT_PIXELS,
        frameskip=1,
    )
    pair.run(180, snapshots_every=1000)
    assert pair.cpu.ram()[0, 0x10] >> 7 == pair.cpu.ram()[0, 0x11] >> 7 == 1
    pair.close()


def test_frames_alone() -> None:
    pair = Pair("pong", 3, stacked=False, autoreset_mode="SameStep", max_num_frames_per_episode=30)
    pair.run(20)
    pair.close()


def test_short_frames_and_ends_on_the_last_frame() -> None:
    """Episodes that end on any frame of the skip, in a game whose frames come in several lengths."""
    for limit in (41, 42, 43, 44):
        pair = Pair(
            "journey_escape", 3, autoreset_mode="SameStep", max_num_frames_per_episode=limit
        )
        pair.run(24, seed=limit, snapshots_every=5)
        pair.close()


def test_partial_reset_and_decorrelation() -> None:
    for mode in ("NextStep", "SameStep", "Disabled"):
        pair = Pair("breakout", 5, lanes=2, autoreset_mode=mode, max_num_frames_per_episode=60)
        pair.reset(np.arange(5, dtype=np.int64))
        pair.decorrelate(30, 99)
        pair.compare_snapshots()
        seeds = np.array([-1, 7, -1, 8, -1], np.int64)
        pair.reset(seeds, np.array([True, True, False, True, False]))
        pair.compare_snapshots()
        pair.close()


@pytest.mark.parametrize("order", ["reverse", "random:3"])
def test_order_of_lanes_does_not_matter(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CULE_SHIM_ORDER", order)
    pair = Pair("seaquest", 7, lanes=5, warps=2)
    pair.run(20)
    pair.close()


def test_snapshots_move_between_back_ends() -> None:
    pair = Pair("breakout", 4)
    pair.run(30)
    snapshots = pair.compare_snapshots()
    other = Pair("breakout", 4, lanes=3)
    other.reset(np.arange(4, dtype=np.int64))
    some = np.array([3, 1, 1, 0, 3], np.int64)
    assert np.array_equal(pair.kernels.get_state(some).numpy(), snapshots[some])
    pair.copy_crosswise(other)


def test_damaged_snapshots_are_refused_whole() -> None:
    pair = Pair("pong", 3)
    pair.reset(np.arange(3, dtype=np.int64))
    before = pair.compare_snapshots()
    snapshots = before.copy()
    snapshots[2, 5000] ^= 1
    with pytest.raises(InvalidStateError, match=r"states\[2\]: the bytes are corrupted"):
        pair.kernels.set_state(snapshots[[1, 0, 2]], pair.consoles)
    other = Pair("breakout", 1)
    other.reset(np.zeros(1, np.int64))
    with pytest.raises(InvalidStateError, match=r"states\[0\]: saved from another game"):
        pair.kernels.set_state(
            np.resize(other.compare_snapshots(), (1, snapshots.shape[1])), np.zeros(1, np.int64)
        )
    assert np.array_equal(pair.compare_snapshots(), before)


def test_screens_and_live_numbers() -> None:
    pair = Pair("seaquest", 4)
    pair.run(12)
    for kind in ("index", "gray", "rgb"):
        screens = pair.kernels.screens(kind, pair.consoles[::-1].copy()).numpy()
        assert np.array_equal(screens, pair.cpu.screens(kind, pair.consoles[::-1].copy())), kind
    assert np.array_equal(pair.kernels.ram().numpy(), pair.cpu.ram())
    assert np.array_equal(pair.kernels.lives().numpy(), pair.cpu.lives())
    assert np.array_equal(pair.kernels.episode_frames().numpy(), pair.cpu.episode_frames())
    live = pair.kernels.ram()
    pair.step(pair.random_actions(np.random.default_rng(1)))
    assert np.array_equal(live.numpy(), pair.cpu.ram())


def test_launches_of_a_step() -> None:
    """Update and render; each cartridge family has its own update."""
    families = [("pong", 2), ("montezuma_revenge", 2), ("robotank", 2)]
    for game, keywords, launches in (
        ("pong", {}, 2),
        ("pong", {"obs_type": "ram"}, 2),
        ("pong", {"obs_type": "objects"}, 3),
        ("pong", {"obs_type": "sprites"}, 3),
        (families, {}, 4),
    ):
        pair = Pair(game, 6, **keywords)
        pair.reset(np.arange(6))
        pop_instruction_counts()
        pair.step(pair.random_actions(np.random.default_rng(0)))
        assert pop_instruction_counts().launches == launches
        pair.close()


class TestMemory:
    """What a console takes on a device (docs/gpu_memory.md)."""

    def test_65_536_consoles_fit_in_6_gb(self) -> None:
        for game in ("pong", "air_raid"):  # NTSC and PAL
            pair = Pair(game, 2)
            batch = pair.kernels._batch
            pool = pool_slots(65_536, 0) * batch.slot_bytes
            assert batch.console_bytes * 65_536 + pool < 6e9
            pair.close()

    def test_state_logs_and_newest_frame_take_at_most_32_kb(self) -> None:
        """In the game with the median of log entries."""
        games = sorted(load_games().values(), key=lambda rules: rules.log_entries)
        pair = Pair(games[len(games) // 2].game_id, 2)
        assert pair.kernels.console_bytes - 3 * 84 * 84 <= 32_768
        pair.close()

    def test_a_log_has_room_for_what_the_kernel_of_a_game_leaves_to_the_interpreter(self) -> None:
        margin = _core.LANE_QUIET_ENTRIES
        for game, rules in load_games().items():
            options = resolve_options(game, 1, {})
            wanted = min(rules.log_entries + margin, LOG_ENTRIES)
            assert wanted <= log_capacity(plan_batch(options), options) <= LOG_ENTRIES, game

    @pytest.mark.parametrize("slots", long_except([1, 3, 4], 3))
    @pytest.mark.parametrize("game", ["pong", "journey_escape"])
    def test_pictures_are_the_same_in_pool_and_reserve(
        self, game: str, slots: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All consoles need pixels after `set_state`, in journey_escape in every frame."""
        monkeypatch.setattr(cuda_batch, "pool_slots", lambda *_: slots)
        pair = Pair(game, 4, autoreset_mode="SameStep", max_num_frames_per_episode=42)
        pair.run(25, seed=slots, snapshots_every=4)
        for back_end in (pair.cpu, pair.kernels):
            back_end.set_state(pair.compare_snapshots(), pair.consoles)
        assert self.slots_taken(pair, slots).all()
        rng = np.random.default_rng(slots)
        for _ in range(12):
            pair.step(pair.random_actions(rng))
            pair.compare_snapshots()
        assert self.slots_taken(pair, slots).any() == (game == "journey_escape")
        assert (pair.kernels._reserve is None) == (slots == 4)
        pair.close()

    @staticmethod
    def slots_taken(pair: Pair, slots: int) -> torch.Tensor:
        """Which slots of the pool are in use."""
        at = pair.kernels._batch.bytes
        return pair.kernels._memory[at : at + 4 * slots].view(torch.int32).bool()

    def test_a_log_that_is_full_is_painted_early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cuda_batch, "log_capacity", lambda *_: 100)
        pair = Pair("pong", 3, lanes=2, max_num_frames_per_episode=42)
        pair.run(20, snapshots_every=3)
        assert self.slots_taken(pair, 3).all()
        pair.close()

    def test_a_host_without_memory_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(size: int) -> None:
            raise module().LaunchError("pinned host memory: out of memory")

        monkeypatch.setattr(cuda_batch, "pool_slots", lambda *_: 1)
        monkeypatch.setattr(cuda_batch, "free_device_bytes", lambda device: 100_000_000)
        monkeypatch.setattr(module(), "HostMemory", refuse)
        size = 2 * 4 * 210 * 160
        with pytest.raises(
            OutOfDeviceMemoryError, match=rf"{size:,} bytes of pinned .* up to 4,096 environments"
        ):
            Pair("pong", 2)

    def test_what_does_not_fit_is_refused_beforehand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        free = 80_000_000
        monkeypatch.setattr(cuda_batch, "free_device_bytes", lambda device: free)
        with pytest.raises(OutOfDeviceMemoryError, match="80,000,000 are free") as caught:
            Pair("pong", 64)
        match = re.search(r"([\d,]+) for each.* about (\d+) environments fit", str(caught.value))
        assert match is not None
        fit = int(match[2])
        assert 0 < fit < 64
        Pair("pong", fit).close()


def test_local_memory_is_reserved_before_the_first_launch() -> None:
    asked: list[int] = []

    def reserve(size: int) -> int:
        asked.append(size)
        return module().reserve_local_memory(size)

    native = types.ModuleType("native")
    vars(native).update(vars(module()))
    native.reserve_local_memory = reserve
    pop_instruction_counts()
    pair = Pair("pong", 1, native=native)
    assert asked == [max(kernel["local_bytes"] for kernel in module().kernel_resources())]
    assert asked[0] > 0
    assert pop_instruction_counts().launches == 0
    pair.close()
    threads = 2 * 2048  # of the shim's device
    reserved = module().reserve_local_memory(16)
    assert reserved >= asked[0] * threads
    more = reserved // threads + 16
    assert module().reserve_local_memory(more) == more * threads
    assert module().reserve_local_memory(16) == more * threads  # it never shrinks


def test_actions_outside_the_set_are_reported_by_the_next_call() -> None:
    pair = Pair("pong", 2)
    pair.reset(np.zeros(2, np.int64))
    wrong = torch.tensor([0, 77], dtype=torch.int32)
    pair.kernels.step(wrong, pair.outputs)
    with pytest.raises(cule.CuleError, match=r"not in 0\.\.5"):
        pair.kernels.step(wrong, pair.outputs)
    pair.kernels.step(torch.zeros(2, dtype=torch.int32), pair.outputs)


def test_shared_memory_is_written_before_it_is_read() -> None:
    """Blocks of several sizes; the shim fills shared memory with garbage before each."""
    for warps in (1, 3, 4):
        pair = Pair("pong", 17, lanes=2, warps=warps)
        pair.run(2)
        pair.close()


@pytest.fixture
def shim_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """``device="cuda"`` means the shim."""
    monkeypatch.setattr(backend, "cuda_module", kernels.module)
    monkeypatch.setattr(backend, "torch_device", lambda _: kernels.CPU)
    monkeypatch.setattr("cule.envs.options.resolve_device", lambda *_: "cuda:0")


@pytest.mark.usefixtures("shim_device")
class TestVectorEnv:
    """`AtariVectorEnv` with the kernels behind it."""

    @staticmethod
    def make(**keywords: Any) -> tuple[cule.AtariVectorEnv, cule.AtariVectorEnv]:
        env = cule.AtariVectorEnv("breakout", 4, device="cuda", num_reset_states=3, **keywords)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cule.envs.options.resolve_device", lambda *_: "cpu")
            reference = cule.AtariVectorEnv(
                "breakout", 4, resets="cached", output="torch", num_reset_states=3, **keywords
            )
        return env, reference

    @pytest.mark.parametrize("mode", long_except(["NextStep", "SameStep"], "SameStep"))
    def test_equals_the_cpu(self, mode: str) -> None:
        env, reference = self.make(autoreset_mode=mode, max_num_frames_per_episode=60)
        obs, info = env.reset(seed=3)
        expected, expected_info = reference.reset(seed=3)
        assert isinstance(obs, torch.Tensor)
        assert torch.equal(obs, expected)
        assert info.keys() == expected_info.keys()
        generator = torch.Generator().manual_seed(0)
        for _ in range(40):
            actions = torch.randint(0, 4, (4,), generator=generator)
            result, wanted = env.step(actions), reference.step(actions)
            for mine, theirs in zip(result[:4], wanted[:4], strict=True):
                assert mine.dtype == theirs.dtype
                assert torch.equal(mine, theirs)
            for key, value in wanted[4].items():
                if key == "final_obs":
                    ended = wanted[4]["_final_info"]
                    assert torch.equal(result[4][key][ended], value[ended])
                elif key == "final_info":
                    for name, numbers in value.items():
                        assert torch.equal(result[4][key][name], numbers), name
                else:
                    assert torch.equal(result[4][key], value), key
        assert torch.equal(env.ram, reference.ram)
        assert torch.equal(env.get_state(), reference.get_state())

    def test_step_frames_writes_into_the_ring(self) -> None:
        env, reference = self.make(autoreset_mode="SameStep", max_num_frames_per_episode=40)
        env.reset(seed=1)
        reference.reset(seed=1)
        ring = torch.zeros((20, 4, 84, 84), dtype=torch.uint8)
        for row in range(20):
            actions = torch.full((4,), row % 4)
            mine, theirs = env.step_frames(actions, out=ring[row]), reference.step_frames(actions)
            assert mine.frame.data_ptr() == ring[row].data_ptr()
            for name in theirs._fields:
                if name != "final_frame":
                    assert torch.equal(getattr(mine, name), getattr(theirs, name)), name
            ended = theirs.terminated | theirs.truncated
            assert torch.equal(mine.final_frame[ended], theirs.final_frame[ended])

    def test_reset_forgets_what_was_sent(self) -> None:
        env, reference = self.make()
        env.reset(seed=1)
        env.send(np.zeros(4, np.int64))
        assert torch.equal(env.reset(seed=2)[0], reference.reset(seed=2)[0])

    def test_rendered_screens_are_arrays(self) -> None:
        env, reference = self.make(render_mode="rgb_array")
        env.reset(seed=1)
        reference.reset(seed=1)
        for mine, theirs in zip(env.render(), reference.render(), strict=True):
            assert isinstance(mine, np.ndarray)
            assert np.array_equal(mine, theirs)

    def test_send_and_recv(self) -> None:
        env, reference = self.make()
        env.reset(seed=1)
        reference.reset(seed=1)
        for index in range(5):
            actions = np.full(4, index % 4)
            env.send(actions)
            assert torch.equal(env.recv()[0], reference.step(actions)[0])

    def test_several_action_sets(self) -> None:
        games = (("pong", 2), ("breakout", 2))
        env = cule.AtariVectorEnv(games, 4, device="cuda", num_reset_states=2)
        env.reset(seed=0)
        obs = env.step(torch.tensor([0, 17, 17, 3]))[0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cule.envs.options.resolve_device", lambda *_: "cpu")
            reference = cule.AtariVectorEnv(games, 4, resets="cached", num_reset_states=2)
        reference.reset(seed=0)
        assert np.array_equal(obs.numpy(), reference.step(np.array([0, 17, 17, 3]))[0])

    @pytest.mark.parametrize(
        ("keyword", "value"),
        [("resets", "exact"), ("batch_size", 2), ("num_threads", 2), ("thread_affinity_offset", 0)],
    )
    def test_what_only_the_cpu_does_is_refused(self, keyword: str, value: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=rf"{keyword} is .*with device 'cuda:0'"):
            cule.AtariVectorEnv("pong", 4, device="cuda", **{keyword: value})

    def test_frames_of_a_kernel_are_bounded(self) -> None:
        with pytest.raises(InvalidArgumentError, match=r"frameskip is 257; .*at most 256"):
            cule.AtariVectorEnv("pong", 1, device="cuda", frameskip=257)
        env = cule.AtariVectorEnv("pong", 1, device="cuda", frameskip=256, num_reset_states=1)
        env.reset(seed=0)
        before = int(env.episode_frames[0])
        env.step(torch.zeros(1, dtype=torch.int64))
        assert int(env.episode_frames[0]) == before + 256

    def test_bad_tensors_are_refused(self) -> None:
        env, _ = self.make()
        env.reset(seed=0)
        for wrong in (
            torch.zeros(4),
            torch.zeros(3, dtype=torch.int64),
            np.zeros(4),
            [0, 0, 0, [0]],
        ):
            with pytest.raises(cule.CuleError, match="actions"):
                env.step(wrong)
        frames = torch.zeros((4, 84, 83), dtype=torch.uint8)
        with pytest.raises(InvalidArgumentError, match="out has shape"):
            env.step_frames(torch.zeros(4, dtype=torch.int64), out=frames)

    def test_numpy_output(self) -> None:
        env = cule.AtariVectorEnv("pong", 2, device="cuda", output="numpy", num_reset_states=2)
        obs, info = env.reset(seed=0)
        assert isinstance(obs, np.ndarray)
        assert isinstance(info["lives"], np.ndarray)
        assert isinstance(env.step(np.zeros(2, np.int64))[1], np.ndarray)

    def test_compilation_in_the_background_shows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        env, reference = self.make()
        assert not env.is_compiling
        assert not reference.is_compiling
        monkeypatch.setattr(env._batch, "_translation", object())
        assert env.is_compiling

    def test_close(self) -> None:
        env, reference = self.make()
        env.reset(seed=0)
        reference.reset(seed=0)
        assert torch.equal(env.screens("gray"), reference.screens("gray"))
        env.close()
        with pytest.raises(cule.CuleError, match="closed"):
            env.step(torch.zeros(4, dtype=torch.int64))


def test_kernels_report_what_they_take() -> None:
    names = [entry["name"] for entry in kernels.module().kernel_resources()]
    assert len(names) == len(set(names)) == 5
    assert _core.build_config()["cuda"]
