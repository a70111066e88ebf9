"""Acting and learning as CUDA graphs: one launch instead of hundreds.

A `CapturedCall` wraps a function of tensors that keeps no state on the host: it must not read,
return or branch on a number that changes from call to call. The first calls run eagerly, the next
one is captured, and all later ones replay the graph on copies of their inputs.

An update is one graph without inputs: it draws its samples, reads them, and learns from them.
"""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

#: Eager calls before a capture, in which libraries make their one-time allocations.
WARM_UP_CALLS = 3

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

#: Shapes and types of the inputs of a call.
Signature = tuple[tuple[tuple[int, ...], torch.dtype], ...]


@dataclass(frozen=True)
class Capture(Generic[Result_co]):
    """A captured call."""

    inputs: Sequence[Tensor]
    """Static inputs, which calls copy their inputs into."""

    outputs: Result_co
    """Static outputs, which every replay overwrites."""

    replay: Callable[[], None]


class CapturedCall(Generic[Result_co]):
    """A function of tensors that is replayed from a CUDA graph after its first calls.

    Inputs of other shapes or types get a graph of their own. The caller owns the results.

    Attributes:
        captures: The graphs by shapes and types of the inputs.
    """

    def __init__(
        self,
        function: Callable[..., Result_co],
        device: torch.device,
        generators: Callable[[], Sequence[torch.Generator]] = lambda: (),
        is_ready: Callable[[], bool] = lambda: True,
        stream: torch.cuda.Stream | None = None,
        *,
        copies_results: bool = True,
    ) -> None:
        """Prepare the call; nothing is captured yet.

        Args:
            function: Takes and returns tensors, or tuples and dicts of them, always with the same
                structure. Everything else it uses must keep its address and change in place.
            device: Device it runs on.
            generators: Returns the generators it samples from, when it is captured.
            is_ready: False while it is too early to capture.
            stream: Stream for the capture and the eager calls; by default one that all calls
                share. Graphs captured on one stream share the memory of libraries, so graphs that
                replay concurrently need streams of their own.
            copies_results: Whether the caller gets copies of the results. Otherwise the next call
                overwrites them, and a replay is the only launch.
        """
        self._function = function
        self._device = device
        self._is_ready = is_ready
        self._stream = stream
        self._generators = generators
        self._copies_results = copies_results
        self._num_calls: dict[Signature, int] = {}
        self.captures: dict[Signature, Capture[Result_co]] = {}

    def __call__(self, *inputs: object) -> Result_co:
        """Run, capture or replay the function."""
        with torch.cuda.device(self._device if self._device.type == "cuda" else -1):
            return self._run(*inputs)

    def _run(self, *inputs: object) -> Result_co:
        leaves, structure = pytree.tree_flatten(inputs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        key = tuple((tuple(x.shape), x.dtype) for x in tensors)
        capture = self.captures.get(key)
        if capture is None:
            self._num_calls[key] = self._num_calls.get(key, 0) + 1
            if self._num_calls[key] <= WARM_UP_CALLS or not self._is_ready():
                return run_aside(self._function, inputs, self._stream)
            # The static inputs must not alias those of the caller.
            own = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            arguments = pytree.tree_unflatten(own, structure)
            statics = [leaf for leaf in own if isinstance(leaf, Tensor)]
            replay, outputs = capture_call(
                self._function, arguments, self._generators(), self._stream
            )
            capture = self.captures[key] = Capture(statics, outputs, replay)
        else:
            for static, tensor in zip(capture.inputs, tensors, strict=True):
                static.copy_(tensor)
        capture.replay()
        if not self._copies_results:
            return capture.outputs
        result: Result_co = pytree.tree_map_only(Tensor, torch.clone, capture.outputs)
        return result

    def forget(self) -> None:
        """Drop all graphs, because a tensor that the function uses was replaced."""
        self.captures.clear()
        self._num_calls.clear()


class Graphs:
    """The calls of a learner that are replayed from CUDA graphs, where it has them."""

    def __init__(
        self,
        device: torch.device,
        generator: torch.Generator,
        is_ready: Callable[[], bool],
        *,
        is_enabled: bool,
    ) -> None:
        """Capture nothing yet; without `is_enabled` calls stay as they are."""
        self._device, self._generator, self._is_ready = device, generator, is_ready
        self._is_enabled = is_enabled
        self.calls: list[CapturedCall[object]] = []

    def capture(
        self,
        function: Callable[..., Result],
        *,
        uses_generator: bool = True,
        draws: Callable[[], torch.Generator] | None = None,
        stream: torch.cuda.Stream | None = None,
        copies_results: bool = True,
    ) -> Callable[..., Result]:
        """Wrap a function in a `CapturedCall`, with its arguments.

        A replay sets the offset of the generator on the device, so only one of the graphs that
        replay concurrently may have `uses_generator`. `draws` returns a further generator that the
        function draws samples with.
        """
        if not self._is_enabled:
            return function

        def generators() -> list[torch.Generator]:
            own = [self._generator] if uses_generator else []
            return own if draws is None else [*own, draws()]

        call = CapturedCall(
            function,
            self._device,
            generators,
            self._is_ready,
            stream,
            copies_results=copies_results,
        )
        self.calls.append(call)
        return call

    @property
    def are_captured(self) -> bool:
        """Whether every call has its graph."""
        return all(call.captures for call in self.calls)

    def forget(self) -> None:
        """Drop all graphs, because a tensor that they use was replaced."""
        for call in self.calls:
            call.forget()


def capture_call(
    function: Callable[..., Result],
    inputs: Sequence[object],
    generators: Sequence[torch.Generator],
    stream: torch.cuda.Stream | None = None,
) -> tuple[Callable[[], None], Result]:
    """Capture a call without running it; return a function that replays it, and its outputs."""
    gc.collect()  # freeing a dropped environment during the capture would be refused
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    # Other threads keep working: a translation in the background, a pinning data loader.
    side = stream or _side_stream(torch.cuda.current_device())
    with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
        outputs = function(*inputs)
    return graph.replay, outputs


@functools.cache
def _side_stream(device_index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device_index)  # type: ignore[no-untyped-call]


def separate_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream for work that runs concurrently with graphs captured on the shared stream."""
    shared = _side_stream(torch.cuda.current_device() if device.index is None else device.index)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    # torch hands out 32 streams in rotation, so this may be the shared one.
    return torch.cuda.Stream(device) if stream == shared else stream  # type: ignore[no-untyped-call]


def run_aside(
    function: Callable[..., Result],
    inputs: Sequence[object],
    stream: torch.cuda.Stream | None = None,
) -> Result:
    """Run a call on a side stream, as CUDA requires before the call is captured."""
    side = stream or _side_stream(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        # Expected: these calls run eagerly with optimizers that are capturable.
        warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
        result = function(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    return result


def copied_scalars(scalars: Mapping[str, Tensor | float]) -> dict[str, Tensor | float]:
    """Copies of scalars on a device, made in one launch; numbers as they are."""
    copies = dict(scalars)
    names = [name for name, value in scalars.items() if isinstance(value, Tensor)]
    if names:
        stacked = torch.stack([torch.as_tensor(scalars[name]).detach() for name in names])
        copies.update(zip(names, stacked.unbind(), strict=True))
    return copies
