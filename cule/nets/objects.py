"""Torsos for observations of objects: rows of numbers in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 64
_HEADS = 4
_VISIBLE = 4  # column of a row
_RELATIONS = 6  # numbers of an object in addition to its rows

#: Pixels in a unit of positions, distances, small distances, which are bounded by 1, and movements.
_POSITION, _FAR, _NEAR, _MOVEMENT = 24.0, 16.0, 6.0, 4.0


def object_features(obs: Tensor) -> Tensor:
    """Numbers of each object ``[B, K, 6 + S F]`` for rows ``[B, S, K, F]`` of integers or floats.

    The rows of all frames, and of the newest one the movement since the frame before and the
    distance from the first object, which is the player's in most games, in x and y. Layers of ReLU
    learn these slowly from positions alone: what happens depends on a few pixels of 160. They are
    0 for objects that are hidden.
    """
    obs = obs.to(torch.float32)
    new, old = obs[:, -1], obs[:, max(obs.shape[1] - 2, 0)]
    is_shown = new[..., _VISIBLE, None] > 0
    distance = (new - new[:, :1])[..., :2] * (is_shown & is_shown[:, :1])
    movement = (new - old)[..., :2] * (is_shown & (old[..., _VISIBLE, None] > 0))
    near = torch.tanh(distance / _NEAR)
    rows = obs.transpose(1, 2).flatten(2) / _POSITION
    return torch.cat([rows, distance / _FAR, near, movement / _MOVEMENT], -1)


class Relations(nn.Module):
    """Features of ``[B, S, K, F]``: `object_features`, linear 128 twice.

    Features of n objects of one kind, such as bricks, are divided by the root of n, where
    `name_rows` has told the kinds, so that they do not drown the others.
    """

    def __init__(self, obs_shape: Sequence[int]) -> None:
        """Make the layers."""
        super().__init__()
        frames, objects, columns = obs_shape
        self.weights = nn.Buffer(torch.ones(objects, 1))
        self.first = nn.Linear(objects * (frames * columns + _RELATIONS), 128)
        self.second = nn.Linear(128, 128)

    def forward(self, obs: Tensor) -> Tensor:
        """Turn rows into features ``[B, 128]``."""
        features = object_features(obs) * self.weights
        hidden = torch.relu(self.first(features.flatten(1)))
        return torch.relu(self.second(hidden))


def name_rows(network: nn.Module, kinds: Sequence[str]) -> None:
    """Tell a network the kinds of objects, in the order of their rows."""
    sizes = torch.tensor([kinds.count(kind) for kind in kinds])
    for module in network.modules():
        if isinstance(module, Relations):
            module.weights.copy_(sizes[:, None] ** -0.5)


class ObjectsBody(nn.Module):
    """Features of ``[B, S, K, F]``: K objects in S frames.

    Each object is a vector of its `object_features` and an embedding of its number, as a row always
    is the same object. Objects attend to those that are visible in the newest frame; the result is
    the maximum over these.
    """

    def __init__(self, obs_shape: Sequence[int]) -> None:
        """Make the layers."""
        super().__init__()
        frames, objects, columns = obs_shape
        self.embed = nn.Linear(frames * columns + _RELATIONS, WIDTH)
        self.names = nn.Parameter(torch.zeros(objects, WIDTH))
        nn.init.normal_(self.names, std=0.1)
        self.queries = nn.Linear(WIDTH, 3 * WIDTH)
        self.merge = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 128)

    def forward(self, obs: Tensor) -> Tensor:
        """Turn rows into features ``[B, 128]``; 0 where nothing is visible."""
        batch, _, objects, _ = obs.shape
        hidden = obs[:, -1, :, _VISIBLE] <= 0
        tokens = torch.relu(self.embed(object_features(obs)) + self.names)
        shape = (batch, objects, 3, _HEADS, WIDTH // _HEADS)
        query, key, value = self.queries(tokens).reshape(shape).permute(2, 0, 3, 1, 4)
        # Objects that are hidden have a small weight rather than none, as all may be.
        mask = hidden[:, None, None, :] * -1e4
        attended = F.scaled_dot_product_attention(query, key, value, mask.to(tokens))
        mixed = tokens + self.merge(attended.transpose(1, 2).flatten(2))
        features = torch.relu(self.out(mixed)).masked_fill(hidden[..., None], 0)
        result: Tensor = features.amax(1)
        return result
