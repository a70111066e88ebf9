"""Masks, planes, crops and scaled numbers from observations of objects, for numpy and torch.

Binary masks, class masks and planes hold boxes alone; object masks and crops hold the pixels in
them. The first four are the names of Object-Centric Attention via Masking (Blüml et al. 2025,
arXiv:2504.03024), which OCAtari's users know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector.utils import batch_space

from cule.envs import AtariVectorEnv, MultiAgentVectorEnv
from cule.envs.checks import Array, as_bool, as_choice, as_int, to_numpy
from cule.envs.errors import ArgumentTypeError
from cule.envs.plan import ROW_OBS_TYPES, SPRITE_COLUMNS
from cule.envs.vector_env import BatchEnv
from cule.errors import InvalidArgumentError, shown

_SCREEN_WIDTH = 160
_VISIBLE = SPRITE_COLUMNS.index("visible")  # x, y, w and h are before it, as in tables of objects
_SPRITE_KINDS = ("player_0", "player_1", "missile_0", "missile_1", "ball")


def draw_planes(
    rows: Array, kinds: Array, num_kinds: int, size: tuple[int, int], heights: Array
) -> Array:
    """Draw the boxes of each kind on a plane of its own.

    Args:
        rows: Observations of objects or sprites, integers ``[N, ..., K, F]``.
        kinds: Kind of each row, integers that broadcast to ``[N, ..., K]``; rows of kinds outside
            0..C-1 are left out.
        num_kinds: Number of planes C.
        size: Height H and width W of a plane. Boxes grow to whole pixels of it.
        heights: Rows of each environment's screen, integers ``[N]``.

    Returns:
        uint8 ``[N, ..., C, H, W]``: 255 inside boxes of visible objects, otherwise 0. numpy or
        torch, as `rows`.
    """
    numbers = _tensor(rows).long()
    height, width = size
    tall = _tensor(heights).to(numbers.device).reshape(-1, *[1] * (numbers.ndim - 2))
    kind = _tensor(kinds).to(numbers.device).expand(numbers.shape[:-1])
    x, y, w, h = (numbers[..., column] for column in range(4))
    left, right = _scaled(x, x + w, width, _SCREEN_WIDTH)
    top, bottom = _scaled(y, y + h, height, tall)
    is_there = (numbers[..., _VISIBLE] > 0) & (left < right) & (top < bottom)
    is_there &= (kind >= 0) & (kind < num_kinds)
    frames = numbers.shape[:-2]
    count = int(np.prod(frames))
    # Corners, whose sums along both axes are how many boxes a pixel is in.
    corners = numbers.new_zeros((count * num_kinds, height + 1, width + 1), dtype=torch.int32)
    frame = torch.arange(count, device=numbers.device).reshape(*frames, 1).expand(kind.shape)
    plane = (frame * num_kinds + kind)[is_there]
    for row, column, sign in (
        (top, left, 1),
        (top, right, -1),
        (bottom, left, -1),
        (bottom, right, 1),
    ):
        place = (plane, row[is_there], column[is_there])
        corners.index_put_(place, corners.new_full((), sign), accumulate=True)
    inside = corners.cumsum(1).cumsum(2)[:, :height, :width] > 0
    planes = (inside.to(torch.uint8) * 255).reshape(*frames, num_kinds, height, width)
    return planes if isinstance(rows, torch.Tensor) else planes.numpy()


def object_masks(rows: Array, screens: Array) -> Array:
    """Keep the pixels of screens that are in a box of a visible object, and set others to 0.

    Args:
        rows: Newest objects or sprites, integers ``[N, K, F]``.
        screens: uint8 ``[N, H, 160]`` or ``[N, H, 160, 3]``, such as ``env.screens("gray")``.

    Returns:
        As `screens`.

    Raises:
        InvalidArgumentError: `rows` of another shape.
    """
    pixels, numbers = _tensor(screens), _tensor(rows)
    _check_rows(numbers, pixels)
    size = (pixels.shape[1], pixels.shape[2])
    kinds = np.zeros(numbers.shape[:-1], np.int64)
    heights = np.full(len(pixels), pixels.shape[1])
    inside = draw_planes(numbers, kinds, 1, size, heights)[:, 0] > 0
    kept = pixels * (inside if pixels.ndim == 3 else inside[..., None])
    return kept if isinstance(screens, torch.Tensor) else kept.numpy()


def crops(rows: Array, screens: Array, size: int) -> Array:
    """Cut out of screens a square around the middle of each visible object.

    Args:
        rows: Newest objects or sprites, integers ``[N, K, F]``.
        screens: uint8 ``[N, H, W]`` or ``[N, H, W, 3]``, such as ``env.screens("gray")``.
        size: Pixels along a side; the middle pixel of a box is at ``size // 2``.

    Returns:
        uint8 ``[N, K, size, size]``, or ``[N, K, size, size, 3]``: 0 outside the screen and for
        objects that are not visible. numpy or torch, as `screens`.

    Raises:
        InvalidArgumentError: `rows` of another shape, or a size outside 1..160.
    """
    side = as_int("size", size, 1, _SCREEN_WIDTH)
    pixels, numbers = _tensor(screens), _tensor(rows).long()
    _check_rows(numbers, pixels)
    steps = torch.arange(side, device=numbers.device) - side // 2
    x, y, w, h = (numbers[..., column, None] for column in range(4))
    column, row = x + w // 2 + steps, y + h // 2 + steps
    height, width = pixels.shape[1:3]
    is_in = ((row >= 0) & (row < height))[..., None] & ((column >= 0) & (column < width))[
        ..., None, :
    ]
    is_in &= (numbers[..., _VISIBLE] > 0)[..., None, None]
    env = torch.arange(len(pixels), device=numbers.device).reshape(-1, 1, 1, 1)
    found = pixels[
        env, row.clamp(0, height - 1)[..., None], column.clamp(0, width - 1)[..., None, :]
    ]
    cut = found * (is_in if pixels.ndim == 3 else is_in[..., None])
    return cut if isinstance(screens, torch.Tensor) else cut.numpy()


class _Converted(gymnasium.vector.VectorWrapper):
    """Observations of objects or sprites as something else."""

    def __init__(self, env: AtariVectorEnv | MultiAgentVectorEnv) -> None:
        """Wrap `env`.

        Raises:
            InvalidArgumentError: It has other observations.
            ArgumentTypeError: It is something else.
        """
        if not isinstance(env, BatchEnv):
            raise ArgumentTypeError(
                f"env is {shown(env)}; it must be an AtariVectorEnv or a MultiAgentVectorEnv"
            )
        if env.config.obs_type not in ROW_OBS_TYPES:
            raise InvalidArgumentError(
                f"env has obs_type {shown(env.config.obs_type)}; it must be 'objects' or 'sprites'"
            )
        super().__init__(env)
        self._obs_type = env.config.obs_type
        self._heights = env._plan.screen_heights
        self._batch_size = env.batch_size

    def reset(self, **keywords: Any) -> tuple[Array, dict[str, Any]]:
        """Begin episodes, as `AtariVectorEnv.reset`."""
        obs, info = self.env.reset(**keywords)
        return self._convert(obs, self._envs(info)), info

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One step, as `AtariVectorEnv.step`; ``final_obs`` is converted, too."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        envs = self._envs(info)
        if "final_obs" in info:
            info = {**info, "final_obs": self._convert(info["final_obs"], envs)}
        return self._convert(obs, envs), reward, terminated, truncated, info

    def _give(self, space: gymnasium.spaces.Box) -> None:
        self.single_observation_space = space
        self.observation_space = batch_space(space, self._batch_size)

    def _envs(self, info: Mapping[str, Array]) -> Array:
        """Index of the environments of a result: all, or of a partial batch their numbers."""
        return slice(None) if self._batch_size == self.num_envs else to_numpy(info["env_id"])

    def _convert(self, obs: Array, envs: Array) -> Array:
        raise NotImplementedError


class ScaledObjects(_Converted):
    """Observations of objects or sprites as float32, in [0, 1] or [-1, 1].

    x and w are divided by the width of the screen, y and h by its height, and clipped. Of other
    columns v becomes log(1 + v) / log(32768), so that 0 is 0 and the largest value is 1; visible of
    objects stays 0 or 1; negative values become 0. With `low` -1 each number u becomes 2u - 1.

    Args:
        env: Environments with ``obs_type="objects"`` or "sprites".
        low: Least number, 0 or -1.

    Raises:
        InvalidArgumentError: `env` has other observations, or `low` is another number.

    Example:
        >>> import cule
        >>> from cule.wrappers.objects import ScaledObjects
        >>> env = ScaledObjects(cule.AtariVectorEnv("pong", 8, obs_type="objects"))
        >>> obs, info = env.reset(seed=0)
        >>> obs.shape, obs.dtype
        ((8, 4, 5, 6), dtype('float32'))
    """

    def __init__(self, env: AtariVectorEnv | MultiAgentVectorEnv, low: int = 0) -> None:
        """Wrap `env`."""
        super().__init__(env)
        self._low = as_int("low", low)
        if self._low not in (0, -1):
            raise InvalidArgumentError(f"low is {shown(low)}; it must be 0 or -1")
        shape = env.single_observation_space.shape
        self._give(gymnasium.spaces.Box(float(low), 1.0, shape, np.float32))

    def _convert(self, obs: Array, envs: Array) -> Array:
        numbers = torch.as_tensor(obs).float()
        heights = torch.as_tensor(self._heights[envs], device=numbers.device).reshape(-1, 1, 1)
        tall, wide = heights.float(), torch.full_like(heights, _SCREEN_WIDTH).float()
        scaled = numbers.clamp(min=0).log1p() / math.log1p(2**15 - 1)
        for column, size in enumerate((wide, tall, wide, tall)):
            scaled[..., column] = (numbers[..., column] / size).clamp(0, 1)
        if self._obs_type == "objects":
            scaled[..., _VISIBLE] = numbers[..., _VISIBLE]
        if self._low:
            scaled = 2 * scaled - 1
        return scaled if isinstance(obs, torch.Tensor) else scaled.numpy()


class ObjectMasks(_Converted):
    """Observations of objects or sprites as masks for a convolutional network.

    With "binary", uint8 ``[N, S, H, W]``: 255 in every box. With "class": in each box the level of
    its kind, those from 0 to C - 1 spread evenly from above 0 to 255; where boxes overlap, that of
    the last kind. With "planes", ``[N, S, C, H, W]``: a binary mask for each kind. `kinds` names
    them in order. The row of sprites that have none of their own is left out.

    Args:
        env: Environments with ``obs_type="objects"`` or "sprites".
        mode: binary, class or planes.
        img_height: Rows of a mask.
        img_width: Columns of a mask.
        hud: Whether scores, lives and timers are drawn, too.

    Raises:
        InvalidArgumentError: `env` has other observations, or an argument is outside its allowed
            values.

    Example:
        >>> import cule
        >>> from cule.wrappers.objects import ObjectMasks
        >>> env = ObjectMasks(cule.AtariVectorEnv("pong", 8, obs_type="objects"), "planes")
        >>> obs, info = env.reset(seed=0)
        >>> obs.shape, env.kinds
        ((8, 4, 3, 84, 84), ('player', 'enemy', 'ball'))
    """

    def __init__(
        self,
        env: AtariVectorEnv | MultiAgentVectorEnv,
        mode: str = "binary",
        *,
        img_height: int = 84,
        img_width: int = 84,
        hud: bool = False,
    ) -> None:
        """Wrap `env`."""
        super().__init__(env)
        self._mode = as_choice("mode", mode, ("binary", "class", "planes"))
        height = as_int("img_height", img_height, 1, int(self._heights.min()))
        self._size = (height, as_int("img_width", img_width, 1, _SCREEN_WIDTH))
        self._kind_of_row: Array = None
        self.kinds: tuple[str, ...] = _SPRITE_KINDS
        if self._obs_type == "objects":
            self.kinds, self._kind_of_row = _kinds_of(env, as_bool("hud", hud))
        planes = (len(self.kinds),) if self._mode == "planes" else ()
        shape = (env.config.stack_num, *planes, *self._size)
        self._give(gymnasium.spaces.Box(0, 255, shape, np.uint8))

    def _convert(self, obs: Array, envs: Array) -> Array:
        if self._kind_of_row is None:
            kinds = obs[..., SPRITE_COLUMNS.index("object")]
        else:
            kinds = self._kind_of_row[envs]
        planes = draw_planes(obs, kinds, len(self.kinds), self._size, self._heights[envs])
        if self._mode == "planes":
            return planes
        if self._mode == "binary":
            return planes.max(axis=-3) if isinstance(planes, np.ndarray) else planes.amax(-3)
        count = len(self.kinds)
        masks = planes[..., 0, :, :] * 0
        for number in range(count):
            level = 255 * (number + 1) // count
            masks[planes[..., number, :, :] > 0] = level
        return masks


def _tensor(value: Array) -> torch.Tensor:
    """An array or tensor as a tensor; torch refuses arrays of some byte orders and strides."""
    if isinstance(value, np.ndarray):
        value = np.require(value, value.dtype.newbyteorder("="), ["C", "W"])
    return torch.as_tensor(value)


def _check_rows(rows: torch.Tensor, screens: torch.Tensor) -> None:
    """Refuse rows of several frames, or of other environments than screens."""
    if rows.ndim != 3 or len(rows) != len(screens):
        raise InvalidArgumentError(
            f"rows has shape {tuple(rows.shape)}; with screens of {len(screens)} environments it "
            f"must be ({len(screens)}, K, F), such as obs[:, -1]"
        )


def _scaled(low: Array, high: Array, size: int, extent: Any) -> tuple[Array, Array]:
    """From pixels of the screen to those of a mask that any part of the box is in."""
    first = (low * size).div(extent, rounding_mode="floor")
    last = -(-high * size).div(extent, rounding_mode="floor")
    return first.clamp(0, size), last.clamp(0, size)


def _kinds_of(
    env: AtariVectorEnv | MultiAgentVectorEnv, with_hud: bool
) -> tuple[tuple[str, ...], Array]:
    """Names of the kinds of all games, and the kind of each row: ``[N, 1, K]``, -1 for none."""
    slots: Mapping[str, Any] = env.objects_layout.slots
    names: dict[str, int] = {}
    kinds = {game: [-1] * env._plan.object_rows for game in slots}
    for game, rows in slots.items():
        for place, slot in enumerate(rows):
            if with_hud or not slot.hud:
                kinds[game][place] = names.setdefault(slot.name, len(names))
    plan = env._plan
    per_env = [kinds[plan.rules[game].game_id] for game in plan.game_index]
    return tuple(names), np.array(per_env)[:, None]
