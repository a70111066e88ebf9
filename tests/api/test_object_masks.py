"""`cule.wrappers.objects`: masks, planes and crops, against loops over boxes."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.errors import InvalidArgumentError
from cule.games.language import OBJECT_COLUMNS

torch = pytest.importorskip("torch")

from cule.wrappers.objects import ObjectMasks, ScaledObjects, crops, draw_planes, object_masks  # noqa: E402


def random_rows(seed: int, *shape: int) -> Any:
    """Boxes that reach beyond the screen, or are empty or hidden; int16 ``[*shape, 6]``."""
    random = np.random.default_rng(seed)
    rows = random.integers(-20, 180, (*shape, len(OBJECT_COLUMNS)), np.int16)
    rows[..., 2:4] = random.integers(0, 30, (*shape, 2))
    rows[..., OBJECT_COLUMNS.index("visible")] = random.integers(0, 3, shape) > 0
    return rows


def plain_planes(rows: Any, kinds: Any, num_kinds: int, size: Any, height: int) -> Any:
    """Planes of one frame: a pixel is set if a box has a part of it."""
    planes = np.zeros((num_kinds, *size), np.uint8)
    for (x, y, w, h, visible, *_), kind in zip(rows.tolist(), kinds.tolist(), strict=True):
        if not visible or kind < 0:
            continue
        for row in range(size[0]):
            for column in range(size[1]):
                meets = y * size[0] < (row + 1) * height and (y + h) * size[0] > row * height
                meets &= x * size[1] < (column + 1) * 160 and (x + w) * size[1] > column * 160
                if meets and w and h:
                    planes[kind, row, column] = 255
    return planes


@pytest.mark.parametrize("size", [(210, 160), (21, 16), (30, 50)])
def test_planes_and_object_masks(size: tuple[int, int]) -> None:
    rows = random_rows(1, 2, 2, 5)
    kinds = np.array([[0, 1, -1, 1, 2]])
    planes = draw_planes(rows, kinds, 3, size, np.array([210, 250]))
    assert planes.dtype == np.uint8
    assert planes.shape == (2, 2, 3, *size)
    for env, height in enumerate((210, 250)):
        for frame in range(2):
            wanted = plain_planes(rows[env, frame], kinds[0], 3, size, height)
            assert np.array_equal(planes[env, frame], wanted)
    assert planes.any()
    tensor = draw_planes(torch.from_numpy(rows), torch.from_numpy(kinds), 3, size, [210, 250])
    assert np.array_equal(tensor.numpy(), planes)


@pytest.mark.parametrize("channels", [(), (3,)])
def test_pixels_of_objects(channels: tuple[int, ...]) -> None:
    random = np.random.default_rng(2)
    screens = random.integers(1, 256, (2, 210, 160, *channels), np.uint8)
    rows = random_rows(3, 2, 7)
    masks = object_masks(rows, screens)
    cut = crops(rows, screens, 9)
    assert masks.dtype == cut.dtype == np.uint8
    for env in range(2):
        inside = plain_planes(rows[env], np.zeros(7, int), 1, (210, 160), 210)[0] > 0
        assert np.array_equal(masks[env][inside], screens[env][inside])
        assert not masks[env][~inside].any()
        for row, square in zip(rows[env].astype(int), cut[env], strict=True):
            left, top = row[0] + row[2] // 2 - 4, row[1] + row[3] // 2 - 4
            for dy in range(9):
                for dx in range(9):
                    y, x = top + dy, left + dx
                    is_in = row[4] and 0 <= y < 210 and 0 <= x < 160
                    wanted = screens[env, y, x] if is_in else 0
                    assert np.array_equal(square[dy, dx], wanted + 0 * square[dy, dx])
    tensors = torch.from_numpy(rows), torch.from_numpy(screens)
    assert np.array_equal(object_masks(*tensors).numpy(), masks)
    assert np.array_equal(crops(*tensors, 9).numpy(), cut)
    kinds = np.zeros(7, int)
    planes = draw_planes(rows, kinds, 1, (84, 84), np.full(2, 210))
    frozen = rows.copy()
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for same in (rows[::-1].copy()[::-1], rows.astype(">i2"), frozen, tensors[0]):
            assert np.array_equal(draw_planes(same, kinds, 1, (84, 84), np.full(2, 210)), planes)
            assert np.array_equal(object_masks(same, screens), masks)
            assert np.array_equal(object_masks(same, tensors[1]).numpy(), masks)
            assert np.array_equal(crops(same, screens[:, ::-1].copy()[:, ::-1], 9), cut)
    others = draw_planes(rows, np.array([0, 1, 0, -1, 9, 0, 2]), 2, (84, 84), np.full(2, 210))
    assert np.array_equal(others[:, 1], draw_planes(rows[:, 1:2], 0, 1, (84, 84), [210, 210])[:, 0])


@pytest.mark.ale
class TestWrapper:
    """`ObjectMasks` over real games."""

    def test_modes(self) -> None:
        """All modes are made of the same planes; scores are drawn on request."""
        games = [("pong", 1), ("breakout", 2)]
        options = {"obs_type": "objects", "stack_num": 2, "autoreset_mode": "SameStep"}
        options |= {"max_num_frames_per_episode": 40}
        envs = {
            mode: ObjectMasks(cule.AtariVectorEnv(games, num_threads=1, **options), mode)
            for mode in ("planes", "binary", "class")
        }
        hud = ObjectMasks(cule.AtariVectorEnv(games, num_threads=1, **options), "planes", hud=True)
        assert envs["class"].kinds == ("player", "enemy", "ball", "block")
        assert set(hud.kinds) - set(envs["class"].kinds) >= {"score", "lives"}
        ends = 0
        for step in range(12):
            if step == 0:
                results = {mode: env.reset(seed=3) for mode, env in envs.items()}
                whole = hud.reset(seed=3)[0]
            else:
                actions = np.full(3, 2)
                results = {mode: env.step(actions) for mode, env in envs.items()}
                whole = hud.step(actions)[0]
            for mode, env in envs.items():
                assert results[mode][0] in env.observation_space
            every = (
                [results]
                if "final_obs" not in results["class"][-1]
                else [
                    results,
                    {mode: (result[-1]["final_obs"],) for mode, result in results.items()},
                ]
            )
            ends += len(every) - 1
            for found in every:
                planes, binary, levels = (found[mode][0] for mode in ("planes", "binary", "class"))
                assert np.array_equal(binary, planes.max(axis=2))
                wanted = (planes > 0) * np.array([63, 127, 191, 255])[:, None, None]
                assert np.array_equal(levels, wanted.max(axis=2))
            order = [hud.kinds.index(kind) for kind in envs["planes"].kinds]
            planes = results["planes"][0]
            assert np.array_equal(whole[:, :, order], planes)
            assert not planes[0, :, 3].any()  # pong has no blocks
            assert planes[1:, -1, 3].any()
        assert ends

    @pytest.mark.parametrize("obs_type", ["objects", "sprites"])
    @pytest.mark.parametrize("batch_size", [1, 2])
    def test_partial_batches(self, obs_type: str, batch_size: int) -> None:
        """Rows are scaled by the screens of their own environments."""
        games = [("pong", 2), ("air_raid", 2)]
        for wrap in (ScaledObjects, lambda env: ObjectMasks(env, "planes")):
            made = [
                wrap(cule.AtariVectorEnv(games, obs_type=obs_type, num_threads=1, **options))
                for options in ({}, {"batch_size": batch_size})
            ]
            whole, _ = made[0].reset(seed=0)
            obs, info = made[1].reset(seed=0)
            assert obs in made[1].observation_space
            assert np.array_equal(obs, whole[info["env_id"]])
            whole = made[0].step(np.zeros(4, int))[0]
            seen = set(info["env_id"].tolist())
            for _ in range(40):
                obs, *_, info = made[1].step(np.zeros(batch_size, int))
                for env, row in zip(info["env_id"].tolist(), obs, strict=True):
                    if env in seen:
                        assert np.array_equal(row, whole[env])
                    seen.discard(env)
            assert not seen

    def test_several_players(self) -> None:
        env = cule.MultiAgentVectorEnv("pong", 2, obs_type="objects", num_threads=1)
        single = cule.AtariVectorEnv("pong", 2, obs_type="objects", num_threads=1)
        assert env.objects_layout == single.objects_layout
        masks = ObjectMasks(env, "planes")
        assert masks.kinds == ("player", "enemy", "ball")
        assert masks.reset(seed=0)[0] in masks.observation_space

    @pytest.mark.parametrize("wrap", [ObjectMasks, ScaledObjects])
    def test_what_is_no_environment(self, wrap: type) -> None:
        env = cule.AtariVectorEnv("pong", 2, obs_type="objects", num_threads=1)
        wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
        for wrong in (None, "pong", wrapped):
            with pytest.raises(cule.ArgumentTypeError, match=r"env is .*; it must be an Atari"):
                wrap(wrong)

    def test_sprites(self) -> None:
        """A plane for each object of the hardware; the row for all others is left out."""
        env = cule.AtariVectorEnv(
            "space_invaders", 1, obs_type="sprites", max_sprites=5, stack_num=1, num_threads=1
        )
        masks = ObjectMasks(env, "planes", img_height=210, img_width=160)
        plain = cule.AtariVectorEnv(
            "space_invaders", 1, obs_type="sprites", max_sprites=5, stack_num=1, num_threads=1
        )
        obs, _ = masks.reset(seed=0)
        rows, _ = plain.reset(seed=0)
        assert masks.kinds == ("player_0", "player_1", "missile_0", "missile_1", "ball")
        (frame,) = rows[:, 0]
        kinds = frame[:, 5]
        assert kinds[-1] == -1
        assert np.array_equal(obs[0, 0], plain_planes(frame, kinds, 5, (210, 160), 210))

    @pytest.mark.parametrize("low", [0, -1])
    def test_scaled(self, low: int) -> None:
        """Numbers against their rule, one at a time."""
        games = [("pong", 1), ("air_raid", 1)]  # screens of 210 and 250 rows
        for obs_type in ("objects", "sprites"):
            made = [
                cule.AtariVectorEnv(games, obs_type=obs_type, stack_num=2, num_threads=1)
                for _ in range(2)
            ]
            scaled = ScaledObjects(made[0], low)
            scaled.reset(seed=0)
            made[1].reset(seed=0)
            for _ in range(30):
                obs, rows = scaled.step(np.zeros(2, int))[0], made[1].step(np.zeros(2, int))[0]
            assert obs in scaled.observation_space
            assert len(np.unique(obs)) > 10
            for found, numbers, height in zip(obs, rows.astype(float), (210, 250), strict=True):
                size = [160, height, 160, height]
                wanted = np.log1p(np.maximum(numbers, 0)) / np.log(32768)
                wanted[..., :4] = np.clip(numbers[..., :4] / size, 0, 1)
                if obs_type == "objects":
                    wanted[..., 4] = numbers[..., 4]
                wanted = (2 * wanted - 1) if low else wanted
                np.testing.assert_allclose(found, wanted, atol=1e-6)

    def test_tensors(self) -> None:
        """With torch tensors masks are tensors."""
        options = {"obs_type": "objects", "output": "torch", "num_threads": 1}
        obs, _ = ObjectMasks(cule.AtariVectorEnv("pong", 2, **options), "class").reset(seed=0)
        assert isinstance(obs, torch.Tensor)
        assert obs.dtype == torch.uint8
        assert set(obs.unique().tolist()) <= {0, 85, 170, 255}

    def test_what_is_refused(self) -> None:
        """Other observations, modes and sizes."""
        images = cule.AtariVectorEnv("pong", 1, num_threads=1)
        with pytest.raises(InvalidArgumentError, match="obs_type 'image'; it must be 'objects' or"):
            ObjectMasks(images)
        env = cule.AtariVectorEnv("pong", 1, obs_type="objects", num_threads=1)
        with pytest.raises(InvalidArgumentError, match=r"low is .* it must be an integer"):
            ScaledObjects(env, np.zeros(2))
        with pytest.raises(InvalidArgumentError, match="low is 1; it must be 0 or -1"):
            ScaledObjects(env, 1)
        with pytest.raises(InvalidArgumentError, match="mode is 'pixels'; it must be"):
            ObjectMasks(env, "pixels")
        with pytest.raises(
            InvalidArgumentError, match=r"img_height is 211; it must be in 1\.\.210"
        ):
            ObjectMasks(env, img_height=211)
        with pytest.raises(InvalidArgumentError, match=r"size is 0; it must be in 1\.\.160"):
            crops(np.zeros((1, 1, 6), np.int16), np.zeros((1, 210, 160), np.uint8), 0)
        screens = np.zeros((4, 210, 160), np.uint8)
        for shape in ((4, 4, 5, 6), (3, 5, 6), (5, 6)):  # the first are those of all frames
            rows = np.zeros(shape, np.int16)
            with pytest.raises(InvalidArgumentError, match=r"rows has shape .* \(4, K, F\)"):
                object_masks(rows, screens)
            with pytest.raises(InvalidArgumentError, match=r"rows has shape .* \(4, K, F\)"):
                crops(rows, screens, 9)
