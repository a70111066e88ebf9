"""Numpy arrays and torch tensors, told apart without importing torch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from cule.envs.errors import ArgumentTypeError

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs

#: A ``numpy.ndarray`` or a ``torch.Tensor``. The values of ``device`` and ``output`` decide which,
#: so a type checker cannot know.
Array: TypeAlias = Any


def is_tensor(value: object) -> TypeIs[torch.Tensor]:
    """Whether this is a torch tensor."""
    module = sys.modules.get("torch")
    return module is not None and isinstance(value, module.Tensor)


def to_numpy(value: object) -> Array:
    """The numpy view of a torch tensor (a copy, from another device); any other value as it is.

    Raises:
        ArgumentTypeError: numpy has no such array: bfloat16, sparse, meta.
    """
    if not is_tensor(value):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"a tensor of {value.dtype} on {value.device} cannot be read as an array: {error}"
        ) from None
