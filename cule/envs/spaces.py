"""Gymnasium spaces of one console."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from cule.envs.options import EnvOptions

RAM_BYTES = 128
COLOUR_CHANNELS = 3


def frame_shape(options: EnvOptions) -> tuple[int, ...]:
    """Shape of one frame of one console: ``[H, W]``, ``[H, W, 3]``, or RAM ``[128]``."""
    if options.obs_type == "ram":
        return (RAM_BYTES,)
    size = (options.img_height, options.img_width)
    return size if options.grayscale else (*size, COLOUR_CHANNELS)


def observation_space(options: EnvOptions) -> spaces.Box:
    """Observations of one console: a stack of frames, or RAM."""
    frame = frame_shape(options)
    shape = frame if options.obs_type == "ram" else (options.stack_num, *frame)
    return spaces.Box(0, 255, shape, np.uint8)


def continuous_action_space() -> spaces.Box:
    """Radius, angle and fire."""
    low = np.array([0.0, -np.pi, 0.0], np.float32)
    high = np.array([1.0, np.pi, 1.0], np.float32)
    return spaces.Box(low, high, dtype=np.float32)
