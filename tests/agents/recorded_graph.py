"""A stand-in for CUDA graphs on a CPU: a call's tensor operations, recorded and done again.

As a graph, a replay reads and writes the memory of the recording, with the numbers and decisions
that Python had then; and reading a tensor's value while recording is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

_READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal")


def _storages(tree: Any) -> set[int]:
    leaves = pytree.tree_leaves(tree)
    return {x.untyped_storage()._cdata for x in leaves if isinstance(x, Tensor)}


class NothingRead(TorchDispatchMode):
    """Refuses what would make the host wait for a device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func._schema.name not in _READS, func
        return func(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.name in _READS:
            raise RuntimeError(f"{func._schema.name} reads a value while a graph is captured")
        out = func(*args, **kwargs)
        self.records.append((func, args, kwargs, out))
        return out


#: The recording in progress, if there is one.
_recorders: list[_Recorder] = []


def as_one_operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is recorded as a whole, as a kernel of the project's own is."""

    def alone(*args: Any) -> Any:
        with _disable_current_modes():
            return function(*args)

    def call(*args: Any) -> Any:
        out = alone(*args)
        if _recorders:
            _recorders[-1].records.append((alone, args, {}, out))
        return out

    return call


def record_call(
    function: Callable[..., Any], inputs: Any, generators: Sequence[torch.Generator]
) -> tuple[Callable[[], None], Any]:
    """In place of `cule.agents.graphs.capture_call`.

    Recording runs the call, which capturing does not; so the first replay does nothing.
    """
    recorder = _Recorder()
    _recorders.append(recorder)
    try:
        with recorder:
            outputs = function(*inputs)
    finally:
        _recorders.pop()
    has_run = [True]

    @torch.no_grad()
    def replay() -> None:
        if has_run:
            has_run.clear()
            return
        for func, args, kwargs, out in recorder.records:
            again = func(*args, **kwargs)
            inside = _storages((args, kwargs))
            for old, new in zip(pytree.tree_leaves(out), pytree.tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.untyped_storage()._cdata not in inside:
                    old.copy_(new)

    return replay, outputs
