"""Kernels of learners on a GPU, each with the tensor operations that it replaces.

Both give the same numbers, bit for bit. Where the CUDA back end is not built, and on a CPU, the
tensor operations run. Kernels launch on the current stream and can be captured in a CUDA graph.
"""

from __future__ import annotations

from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

from cule.device import cuda_module

#: Pixels of a side of the blocks of `gather_blocks`: the stride of the first convolution.
BLOCK_SIDE = 4


def gather_blocks(frames: Tensor, index: Tensor) -> Tensor:
    """Gather stacks of frames for a network that reads blocks of pixels as channels.

    Args:
        frames: uint8 ``[F, H, W]``; H and W are multiples of 4.
        index: Frames of each stack; int64 ``[B, S]``.

    Returns:
        bfloat16 ``[B, 16 S, H / 4, W / 4]``, channels last: pixel (4 y + i, 4 x + j) of frame s of
        a stack is channel 16 s + 4 i + j at (y, x), as in `torch.nn.functional.pixel_unshuffle`.
    """
    native = _native_of(frames)
    if native is None:
        stacks = frames[index].to(torch.bfloat16)
        blocks = F.pixel_unshuffle(stacks, BLOCK_SIDE)
        return blocks.contiguous(memory_format=torch.channels_last)
    return _gather_blocks(native, frames, index.contiguous())


def linear_recurrence(added: Tensor, factors: Tensor) -> Tensor:
    """``x[t] = added[t] + factors[t] * x[t + 1]``, with 0 after the last row; ``[T, N]``."""
    native = _native_of(added)
    if native is None or added.dtype != torch.float32 or added.dim() != 2:
        out = torch.empty_like(added)
        following = added.new_zeros(added.shape[1:])
        for t in range(len(added) - 1, -1, -1):
            following = added[t] + factors[t] * following
            out[t] = following
        return out
    return _linear_recurrence(native, added.contiguous(), factors.contiguous())


def _native_of(tensor: Tensor) -> ModuleType | None:
    return cuda_module() if tensor.device.type == "cuda" else None


def _stream(tensor: Tensor) -> int:
    stream: int = torch.cuda.current_stream(tensor.device).cuda_stream
    return stream


def _gather_blocks(native: ModuleType, frames: Tensor, index: Tensor) -> Tensor:
    (count, stack), (height, width) = index.shape, frames.shape[1:]
    out = torch.empty(
        (count, BLOCK_SIDE**2 * stack, height // BLOCK_SIDE, width // BLOCK_SIDE),
        dtype=torch.bfloat16,
        device=frames.device,
        memory_format=torch.channels_last,
    )
    with torch.cuda.device(frames.device):
        native.gather_blocks(
            frames.data_ptr(),
            index.data_ptr(),
            stacks=count,
            stack=stack,
            height=height,
            width=width,
            out=out.data_ptr(),
            stream=_stream(frames),
        )
    return out


def _linear_recurrence(native: ModuleType, added: Tensor, factors: Tensor) -> Tensor:
    out = torch.empty_like(added)
    with torch.cuda.device(added.device):
        native.linear_recurrence(
            added.data_ptr(),
            factors.data_ptr(),
            steps=len(added),
            columns=added.shape[1],
            out=out.data_ptr(),
            stream=_stream(added),
        )
    return out
