"""CUDA graphs on a CPU: the tensor operations of a call, recorded and run again.

As a graph, a replay reads and writes the memory of the recording, with the numbers and decisions
that Python had then; and reading a tensor's value while recording is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cule.agents.parts import graphs

_READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal")


def _storages(tree: Any) -> set[int]:
    leaves = pytree.tree_leaves(tree)
    return {x.untyped_storage()._cdata for x in leaves if isinstance(x, Tensor)}


class NothingRead(TorchDispatchMode):
    """Refuses what would make the host wait for a device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert _is_inside_one() or func._schema.name not in _READS, func
        return func(*args, **(kwargs or {}))


class Recording:
    """Tensor operations that have been done once, to be done again."""

    def __init__(self) -> None:
        """Begin without operations."""
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self._has_run = False

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record what is done inside; it is done, which capturing a graph would not do."""
        _recordings.append(self)
        try:
            with _Recorder():
                yield
        finally:
            _recordings.pop()
        self._has_run = True

    @torch.no_grad()
    def replay(self) -> None:
        """Do it again; the first time nothing, because recording has done it."""
        for counter in _counters:
            counter.replays += 1
        if self._has_run:
            self._has_run = False
            return
        _is_replaying.append(self)
        try:
            self._run()
        finally:
            _is_replaying.pop()

    def _run(self) -> None:
        for func, args, kwargs, out in self.operations:
            again = func(*args, **kwargs)
            inside = _storages((args, kwargs))
            for old, new in zip(pytree.tree_leaves(out), pytree.tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.untyped_storage()._cdata not in inside:
                    old.copy_(new)


#: The recordings in progress; None in the middle of what is recorded as one operation.
_recordings: list[Recording | None] = []


def is_recording() -> bool:
    """Whether a graph is being captured."""
    return any(recording is not None for recording in _recordings)


def _is_inside_one() -> bool:
    return bool(_recordings) and _recordings[-1] is None


class _Recorder(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        recording = _recordings[-1]
        if recording is not None and func._schema.name in _READS:
            raise RuntimeError(f"{func._schema.name} reads a value while a graph is captured")
        out = func(*args, **kwargs)
        if recording is not None:
            recording.operations.append((func, args, kwargs, out))
        return out


class Launches(TorchDispatchMode):
    """Counts replays, and the operations outside of them that would launch a kernel."""

    def __init__(self) -> None:
        """Begin without any."""
        super().__init__()
        self.replays = 0
        self.eager: list[str] = []

    def __enter__(self) -> Launches:
        """Begin to count."""
        _counters.append(self)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop."""
        super().__exit__(*error)
        _counters.remove(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not _is_replaying and not func.is_view and func._schema.name not in _NO_LAUNCH:
            self.eager.append(func._schema.name)
        return func(*args, **(kwargs or {}))


#: Allocations, which launch nothing.
_NO_LAUNCH = ("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::detach")
_counters: list[Launches] = []
_is_replaying: list[Recording] = []


def as_one_operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is recorded as a whole, as a kernel of the project's own is."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        recording = _recordings[-1] if _recordings else None
        _recordings.append(None)
        try:
            out = function(*args, **kwargs)
        finally:
            _recordings.pop()
        if recording is not None:
            recording.operations.append((function, args, kwargs, out))
        return out

    return call


def record_graphs(patch: pytest.MonkeyPatch) -> None:
    """Make recordings of what learners would capture."""
    patch.setattr(graphs, "capture_call", _record_call)
    patch.setattr(graphs, "run_aside", lambda function, inputs, _: function(*inputs))


def _record_call(
    function: Callable[..., Any],
    inputs: Any,
    generators: Sequence[torch.Generator],
    stream: Any = None,
) -> tuple[Callable[[], None], Any]:
    """In place of `cule.agents.parts.graphs.capture_call`."""
    recording = Recording()
    with recording.record():
        outputs = function(*inputs)
    return recording.replay, outputs
