"""The CUDA back end on a real GPU: equal to the CPU back end, without waiting, in CUDA graphs."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import cule
from cule import device as devices
from cule.envs import translation
from cule.envs.launch import Geometry, choose_geometry
from cule.games import list_games, rom_status
from tests.support import fake_cuda
from tests.support.cases import long_except
from tests.support.kernels import Pair, assert_golden

ROMS = {status.rom_id for status in rom_status() if status.md5_ok}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not ROMS, reason="no ROMs: install ale-py or set CULE_ROM_DIR"),
]

LANES = (1, 2, 8, 16, 32)
GAMES = ("pong", "breakout", "montezuma_revenge", "robotank", "pitfall2", "elevator_action",
         "journey_escape", "up_n_down", "air_raid", "freeway", "atlantis", "seaquest")  # fmt: skip


@pytest.fixture(autouse=True)
def device() -> Iterator[torch.device]:
    """The first GPU; nothing of a test is left on it."""
    yield torch.device("cuda:0")
    gc.collect()
    torch.cuda.empty_cache()


def make_pair(game: Any, num_envs: int, **keywords: Any) -> Pair:
    native = devices.cuda_module()
    assert native is not None
    return Pair(game, num_envs, native=native, device=torch.device("cuda:0"), **keywords)


@pytest.mark.no_fake_cuda  # tests/property does it
@pytest.mark.parametrize("game", GAMES)
def test_equals_the_cpu(game: str) -> None:
    pair = make_pair(game, 37, lanes=LANES[len(game) % len(LANES)], warps=4)
    pair.run(200, snapshots_every=100)
    pair.close()


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for the kernels of games; skips where there is no compiler for them."""
    monkeypatch.setenv("CULE_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))
    try:
        translation.toolkit()
    except cule.DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.no_fake_cuda  # tests/property does it
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("game", ["pong", "montezuma_revenge", "robotank", "up_n_down"])
def test_translated_games(game: str) -> None:
    pair = make_pair(game, 37, lanes=LANES[len(game) % len(LANES)], warps=4, is_compiled=True)
    pair.run(200, snapshots_every=100)
    pair.close()


@pytest.mark.usefixtures("cache")
def test_a_compiled_kernel_takes_over_in_the_background() -> None:
    pair = make_pair("pong", 9, lanes=4, kernel="compiled")
    pair.run(2)
    job = pair.kernels._translation
    if job is not None:
        job.wait()
    pair.run(20)
    assert pair.kernels._batch.has_program
    pair.close()


@pytest.mark.no_fake_cuda  # tests/property does it
@pytest.mark.slow
@pytest.mark.parametrize("game", list_games())
def test_every_game_for_1000_steps(game: str) -> None:
    pair = make_pair(game, 16, lanes=16, repeat_action_probability=0.25)
    pair.run(1000, seed=1, snapshots_every=500)
    pair.close()
    native = devices.cuda_module()
    assert_golden(game, native=native, device=torch.device("cuda:0"), lanes=2)


@pytest.mark.no_fake_cuda  # tests/property does it
@pytest.mark.parametrize("lanes", LANES)
def test_several_games_in_one_batch(lanes: int) -> None:
    games = (("pong", 33), ("montezuma_revenge", 7), ("breakout", 65), ("robotank", 3))
    pair = make_pair(games, 108, lanes=lanes, warps=3)
    pair.run(50, seed=lanes)
    pair.close()


@pytest.mark.no_fake_cuda  # tests/property does it
@pytest.mark.parametrize(
    "keywords",
    [
        {"autoreset_mode": "SameStep", "episodic_life": True},
        {"grayscale": False, "stack_num": 2},
        {"obs_type": "ram"},
        {"obs_type": "objects"},
        {"modifications": "random_brick_colors, drift_left"},
        {"modifications": [["paddle_size", "drift_left"], ["open_tunnel"], None] * 11},
        {"obs_type": "sprites", "max_sprites": 20},
        {"frameskip": 1, "maxpool": False},
        {"img_height": 97, "img_width": 71},
        {"continuous": True},
    ],
)
def test_options(keywords: dict[str, Any]) -> None:
    pair = make_pair("breakout", 33, lanes=8, **keywords)
    pair.run(100)
    pair.close()


@pytest.mark.parametrize("obs_type", long_except(["image", "objects"], "image"))
def test_objects_in_info(obs_type: str) -> None:
    """Of two games, of which one has more objects, across resets."""
    envs = [
        cule.AtariVectorEnv(
            [("pong", 3), ("breakout", 2)], device=device, resets="cached", output="numpy",
            objects_info=True, obs_type=obs_type, autoreset_mode="SameStep",
            max_num_frames_per_episode=60, num_reset_states=2,
        )
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    infos = [env.reset(seed=0)[1] for env in envs]
    rng, ends = np.random.default_rng(0), 0
    for _ in range(40):
        ours, theirs = (info["objects"] for info in infos[::-1])
        assert (ours.dtype, ours.shape) == (np.int16, (5, 113, 6))
        np.testing.assert_array_equal(ours, theirs)
        actions = rng.integers(3, size=5)
        steps = [env.step(actions) for env in envs]
        infos = [step[4] for step in steps]
        ends += int(steps[0][3].sum())
        states = [env.observe()[1]["objects"] for env in envs]
        np.testing.assert_array_equal(*states)
    assert ends > 5
    on_device = cule.AtariVectorEnv(
        "pong", 2, device="cuda", output="torch", objects_info=True, num_reset_states=1
    )
    assert on_device.reset(seed=0)[1]["objects"].dtype == torch.int16


@pytest.mark.parametrize("mode", long_except(["NextStep", "SameStep", "Disabled"], "SameStep"))
def test_episode_info(mode: str) -> None:
    envs = [
        cule.AtariVectorEnv(
            "breakout", 5, device=device, resets="cached", output="numpy", episode_info=True,
            autoreset_mode=mode, episodic_life=True, max_num_frames_per_episode=60,
            num_reset_states=2,
        )
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    infos = [env.reset(seed=0)[1] for env in envs]
    rng, ended, episodes = np.random.default_rng(0), np.zeros(5, bool), 0
    for _ in range(40):
        for key in ("reward", "episode_return", "episode_length"):
            assert infos[0][key].tolist() == infos[1][key].tolist(), key
        if mode == "Disabled" and ended.any():
            for env in envs:
                env.reset(options={"reset_mask": ended})
        actions = rng.integers(4, size=5)
        steps = [env.step(actions) for env in envs]
        infos = [step[4] for step in steps]
        ended = steps[0][2] | steps[0][3]
        episodes += int(ended.sum())
    assert episodes > 5
    for env in envs:
        env.close()


@pytest.mark.no_fake_cuda  # too many environments for it
def test_large_batch_equals_small_ones() -> None:
    """4,096 environments: the first and the last are what they are in a small batch."""
    seeds = np.arange(4096, dtype=np.int64)
    env = cule.AtariVectorEnv("pong", 4096, device="cuda", autoreset_mode="SameStep")
    env.reset(seed=seeds)
    some = np.r_[0:16, 4080:4096]
    alone = cule.AtariVectorEnv("pong", 32, resets="cached", autoreset_mode="SameStep")
    alone.reset(seed=seeds[some])
    rng = np.random.default_rng(0)
    for _ in range(100):
        actions = rng.integers(0, 6, 4096)
        mine, theirs = env.step(torch.from_numpy(actions).cuda()), alone.step(actions[some])
        for tensor, array in zip(mine[:4], theirs[:4], strict=True):
            assert np.array_equal(tensor.cpu().numpy()[some], array)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_step_neither_waits_nor_allocates() -> None:
    env = cule.AtariVectorEnv(
        "breakout", 8, device="cuda", autoreset_mode="SameStep", num_reset_states=2
    )
    env.reset(seed=0)
    actions = torch.zeros(8, dtype=torch.int64, device="cuda")
    ring = torch.zeros((8, 8, 84, 84), dtype=torch.uint8, device="cuda")
    for row in range(4):
        env.step_frames(actions, out=ring[row])
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["num_device_alloc"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        for row in range(8):
            env.step_frames(actions, out=ring[row])
            env.step(actions)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["num_device_alloc"] == before


def test_graph_with_a_policy() -> None:
    """Acting and stepping in a captured graph equals acting and stepping eagerly."""
    torch.manual_seed(0)
    policy = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4 * 84 * 84, 6)).cuda()

    def act(obs: torch.Tensor) -> torch.Tensor:
        return policy(obs.float() / 255).argmax(1)

    def make() -> tuple[cule.AtariVectorEnv, torch.Tensor]:
        env = cule.AtariVectorEnv(
            "pong", 4, device="cuda", autoreset_mode="SameStep", num_reset_states=2
        )
        return env, env.reset(seed=5)[0].clone()

    env, obs = make()
    eager, eager_obs = make()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                obs.copy_(env.step(act(obs))[0])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            new_obs, reward, *_ = env.step(act(obs))
            obs.copy_(new_obs)
        for _ in range(3):
            eager_obs = eager.step(act(eager_obs))[0]
        for _ in range(8):
            graph.replay()
            eager_obs, eager_reward, *_ = eager.step(act(eager_obs))
            assert torch.equal(obs, eager_obs)
            assert torch.equal(reward, eager_reward)


def test_the_first_step_may_be_captured() -> None:
    """Nothing is loaded or allocated in it that a graph could not hold."""
    envs = [cule.AtariVectorEnv("breakout", 8, device="cuda", num_reset_states=2) for _ in range(2)]
    actions = torch.ones(8, dtype=torch.int32, device="cuda")
    for env in envs:
        env.reset(seed=2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        obs, reward, *_ = envs[0].step(actions)
    for _ in range(8):
        graph.replay()
        expected = envs[1].step(actions)
        assert torch.equal(obs, expected[0])
        assert torch.equal(reward, expected[1])


def test_two_streams() -> None:
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    envs = [cule.AtariVectorEnv("pong", 4, device="cuda", num_reset_states=2) for _ in streams]
    sums = []
    for env, stream in zip(envs, streams, strict=True):
        with torch.cuda.stream(stream):
            env.reset(seed=2)
    for _ in range(10):
        for env, stream in zip(envs, streams, strict=True):
            with torch.cuda.stream(stream):
                obs = env.step(torch.full((4,), 2, device="cuda"))[0]
                sums.append(obs.long().sum())
    torch.cuda.synchronize()
    assert all(int(a) == int(b) for a, b in zip(sums[::2], sums[1::2], strict=True))


def test_every_device() -> None:
    """Two batches in one process, on two devices where there are two."""
    results = []
    for index in range(min(2, torch.cuda.device_count())):
        env = cule.AtariVectorEnv("breakout", 4, device=f"cuda:{index}", num_reset_states=2)
        env.reset(seed=0)
        obs = env.step(torch.ones(4, dtype=torch.int64, device=f"cuda:{index}"))[0]
        assert obs.device.index == index
        results.append(obs.cpu())
    assert all(torch.equal(result, results[0]) for result in results)


def test_close_frees_everything() -> None:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    env = cule.AtariVectorEnv("pong", 32, device="cuda", num_reset_states=2)
    env.reset(seed=0)
    assert torch.cuda.memory_allocated() > before
    env.close()
    del env
    gc.collect()
    assert torch.cuda.memory_allocated() <= before


def test_one_snapshot_for_many_and_other_options() -> None:
    env = cule.AtariVectorEnv("breakout", 4, device="cuda", num_reset_states=2)
    env.reset(seed=0)
    for action in (1, 2, 3, 2):
        obs = env.step(torch.full((4,), action, device="cuda"))[0]
    env.set_state(env.get_state([2]))
    seen, info = env.observe()
    assert all(torch.equal(row, obs[2]) for row in seen)
    assert info["frame_number"].unique().numel() == 1
    assert "device='cuda" in repr(env)
    other = cule.AtariVectorEnv("breakout", 4, device="cuda", num_reset_states=2, grayscale=False)
    other.reset(seed=0)
    with pytest.raises(cule.InvalidStateError, match=r"states\[0\] was saved with grayscale=False"):
        env.set_state(other.get_state())


def test_too_many_environments() -> None:
    large = {"grayscale": False, "img_height": 210, "img_width": 160, "num_reset_states": 1}
    with pytest.raises(cule.CuleError, match=r"bytes are needed on cuda:0, .* environments fit"):
        cule.AtariVectorEnv("pong", 1 << 15, device="cuda", stack_num=256, **large)


def test_no_such_device() -> None:
    with pytest.raises(cule.CuleError, match=r"there are .* GPUs here"):
        cule.AtariVectorEnv("pong", 1, device="cuda:99")


def test_geometry_grows_with_the_batch() -> None:
    device = torch.device("cuda:0")
    lanes = [choose_geometry(n, device).lanes_per_warp for n in (1, 4096, 65536, 1 << 20)]
    assert lanes == sorted(lanes)
    assert isinstance(choose_geometry(7, device), Geometry)


@pytest.mark.parametrize(
    ("game", "number"), long_except([("warlords", 4), ("mario_bros", 2)], ("mario_bros", 2))
)
def test_several_players(game: str, number: int) -> None:
    pair = make_pair(game, 9, has_players=True, lanes=4, num_players=number, noop_max=10)
    pair.run(20, snapshots_every=10)
    pair.close()
    envs = [
        cule.MultiAgentVectorEnv(
            game,
            5,
            num_players=number,
            device=device,
            resets="cached",
            output="numpy",
            num_reset_states=2,
            autoreset_mode="SameStep",
            max_num_frames_per_episode=40,
        )
        for device in ("cpu", "cuda")
    ]
    rng = np.random.default_rng(0)
    for env in envs:
        env.reset(seed=1)
    for _ in range(12):
        actions = rng.integers(len(envs[0].action_set), size=(5, number))
        (obs, *expected, info), (same_obs, *got, same_info) = (env.step(actions) for env in envs)
        assert np.array_equal(obs, same_obs)
        for one, other in zip(expected, got, strict=True):
            assert np.array_equal(one, other)
        for key in ("lives", "is_out"):
            assert np.array_equal(info[key], same_info[key]), key
        assert np.array_equal(envs[0].lives, envs[1].lives)
    with pytest.raises(cule.DeviceError, match="kernel is 'compiled'"):
        cule.MultiAgentVectorEnv(game, 1, device="cuda", kernel="compiled")
    for env in envs:
        env.close()


def test_recv_waits_for_calls_of_other_threads() -> None:
    """It steps the environments, which only one call may do at a time."""
    env = cule.AtariVectorEnv("pong", 2, device="cuda:0")
    env.reset(seed=0)
    env.send(np.zeros(2, np.int64))
    received: list[object] = []

    def receive() -> None:
        with fake_cuda.in_thread():
            received.append(env.recv())

    thread = threading.Thread(target=receive, daemon=True)
    with env._lock:  # inside a call
        thread.start()
        thread.join(0.5)
        assert not received
    thread.join(60)
    assert len(received) == 1
    env.close()
