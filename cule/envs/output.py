"""The form of results: numpy arrays, or torch tensors on the same memory."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import NDArray

from cule.errors import InvalidArgumentError


class Output:
    """Turns arrays into what the user asked for. torch is imported only when it is asked for."""

    def __init__(self, kind: str) -> None:
        """Choose the form.

        Args:
            kind: "numpy" or "torch".

        Raises:
            InvalidArgumentError: torch cannot be imported.
        """
        self._torch: Any = None
        if kind == "torch":
            try:
                import torch
            except ImportError as error:
                raise InvalidArgumentError(
                    f"output is 'torch', but torch cannot be imported: {error}"
                ) from None
            self._torch = torch

    def wrap(self, array: Any) -> Any:
        """The array, or a tensor on the same memory."""
        return array if self._torch is None else self._torch.from_numpy(array)

    def wrap_all(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """`wrap` for every value of a dict."""
        if self._torch is None:
            return arrays
        return {key: self._torch.from_numpy(array) for key, array in arrays.items()}

    def wrap_read_only(self, array: NDArray[Any]) -> Any:
        """`wrap` for memory that is not to be written to, a notion torch does not have."""
        if self._torch is None:
            return array
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable", category=UserWarning)
            return self._torch.from_numpy(array)
