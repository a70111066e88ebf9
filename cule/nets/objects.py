"""The torso for observations of objects: rows that attend to each other, in any number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 64
_HEADS = 4
_VISIBLE = 4  # column of a row


class ObjectsBody(nn.Module):
    """Features of ``[B, S, K, F]``: K objects in S frames.

    Each object is a vector of its rows in all frames and an embedding of its number, as a row
    always is the same object. Objects attend to those that are visible in the newest frame; the
    result is the maximum over these.
    """

    def __init__(self, first: type[nn.Linear], obs_shape: Sequence[int]) -> None:
        """Make the layers, the first of this kind."""
        super().__init__()
        frames, objects, columns = obs_shape
        self.embed = first(frames * columns, WIDTH)
        self.names = nn.Parameter(torch.zeros(objects, WIDTH))
        nn.init.normal_(self.names, std=0.1)
        self.queries = nn.Linear(WIDTH, 3 * WIDTH)
        self.merge = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 128)

    def forward(self, obs: Tensor) -> Tensor:
        """Turn rows into features ``[B, 128]``; 0 where nothing is visible."""
        batch, _, objects, _ = obs.shape
        hidden = obs[:, -1, :, _VISIBLE] <= 0
        rows = obs.transpose(1, 2).flatten(2)
        tokens = torch.relu(self.embed(rows) + self.names)
        shape = (batch, objects, 3, _HEADS, -1)
        query, key, value = self.queries(tokens).reshape(shape).permute(2, 0, 3, 1, 4)
        # Objects that are hidden have a small weight rather than none, as all may be.
        mask = hidden[:, None, None, :] * -1e4
        attended = F.scaled_dot_product_attention(query, key, value, mask.to(tokens))
        mixed = tokens + self.merge(attended.transpose(1, 2).reshape(batch, objects, -1))
        features = torch.relu(self.out(mixed)).masked_fill(hidden[..., None], 0)
        result: Tensor = features.amax(1)
        return result
