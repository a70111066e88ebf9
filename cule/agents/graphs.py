"""Acting and learning as CUDA graphs: one launch in place of some hundred.

A `CapturedCall` is a function of tensors that keeps nothing on the host: no number that changes
from call to call may be read, returned or decided upon in Python. Its first calls run as they are;
then it is captured, and from there on replayed on inputs that are copied in.
"""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

#: Calls before a capture: what libraries allocate once is then there.
WARM_UP_CALLS = 3

Result = TypeVar("Result")


class Capture(NamedTuple):
    """A captured call."""

    inputs: Sequence[Tensor]
    """Where the inputs of a replay are copied to."""

    outputs: Any
    """What a replay writes to, as the function returned it."""

    replay: Callable[[], None]


class CapturedCall(Generic[Result]):
    """A function of tensors, replayed from a CUDA graph after its first calls.

    Inputs of other shapes or types get a graph of their own. Results are the caller's.

    Attributes:
        captures: The graphs, by shapes and types of the inputs.
    """

    def __init__(
        self,
        function: Callable[..., Result],
        device: torch.device,
        generators: Sequence[torch.Generator] = (),
        is_ready: Callable[[], bool] = lambda: True,
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        """Capture nothing yet.

        Args:
            function: Takes tensors, tuples and dicts of them, and returns such; always with the
                same structure. Everything else that it uses stays where it is and is changed in
                place.
            device: Where it runs.
            generators: Those that it draws from.
            is_ready: False as long as it is too early for a capture.
            stream: Where it is captured and its first calls run; by default one that all such calls
                share. Graphs captured on one stream share memory of libraries, so what is to be
                replayed at the same time needs streams of its own.
        """
        self._function = function
        self._device = device
        self._is_ready = is_ready
        self._stream = stream
        self._generators = generators
        self._calls: dict[Any, int] = {}
        self.captures: dict[Any, Capture] = {}

    def __call__(self, *inputs: Any) -> Result:
        """Run, capture or replay the function."""
        with torch.cuda.device(self._device if self._device.type == "cuda" else -1):
            return self._run(*inputs)

    def _run(self, *inputs: Any) -> Result:
        leaves, structure = pytree.tree_flatten(inputs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        key = tuple((tuple(x.shape), x.dtype) for x in tensors)
        capture = self.captures.get(key)
        if capture is None:
            self._calls[key] = self._calls.get(key, 0) + 1
            if self._calls[key] <= WARM_UP_CALLS or not self._is_ready():
                return run_aside(self._function, inputs, self._stream)
            # A graph of inputs that will be overwritten: memory of its own.
            own = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            arguments = pytree.tree_unflatten(own, structure)
            statics = [leaf for leaf in own if isinstance(leaf, Tensor)]
            replay, outputs = capture_call(
                self._function, arguments, self._generators, self._stream
            )
            capture = self.captures[key] = Capture(statics, outputs, replay)
        else:
            for static, tensor in zip(capture.inputs, tensors, strict=True):
                static.copy_(tensor)
        capture.replay()
        result: Result = pytree.tree_map_only(Tensor, torch.clone, capture.outputs)
        return result

    def forget(self) -> None:
        """Capture anew, because what the function uses has been replaced."""
        self.captures.clear()
        self._calls.clear()


def capture_call(
    function: Callable[..., Result],
    inputs: Any,
    generators: Sequence[torch.Generator],
    stream: torch.cuda.Stream | None = None,
) -> tuple[Callable[[], None], Result]:
    """Record what a call launches, without running it.

    Returns:
        What runs it, and what the call returned, which every run writes anew.
    """
    gc.collect()  # what an environment that nobody holds any more frees would be refused below
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    # Other threads may go on: a translation in the background, a pinning data loader.
    side = stream or _side_stream(torch.cuda.current_device())
    with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
        outputs = function(*inputs)
    return graph.replay, outputs


@functools.cache
def _side_stream(device_index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device_index)  # type: ignore[no-untyped-call]


def stream_beside(device: torch.device) -> torch.cuda.Stream:
    """A stream for what runs beside graphs that were captured on no stream of their own."""
    shared = _side_stream(torch.cuda.current_device() if device.index is None else device.index)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    # torch has 32 streams, and hands them out by turns.
    return torch.cuda.Stream(device) if stream == shared else stream  # type: ignore[no-untyped-call]


def run_aside(
    function: Callable[..., Result], inputs: Any, stream: torch.cuda.Stream | None = None
) -> Result:
    """Call on another stream, as what is to be captured later must have been before."""
    side = stream or _side_stream(torch.cuda.current_device())
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        # True of these calls, and meant.
        warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
        result = function(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    return result


@torch.no_grad()
def step_unless(skip: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """A step of an optimiser that changes nothing where `skip` is true, without reading it.

    Args:
        skip: bool scalar on the device of the parameters; false at the optimiser's first step,
            which makes its state.
        optimizer: One whose state is on that device.
    """
    before = [tensor.clone() for tensor in _tensors_of(optimizer)]
    optimizer.step()
    for now, old in zip(_tensors_of(optimizer), before, strict=False):
        now.copy_(torch.where(skip, old, now))


def _tensors_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    states = [value for p in weights for value in optimizer.state.get(p, {}).values()]
    return [*weights, *(value for value in states if isinstance(value, Tensor))]


def make_capturable(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Keep everything that an optimiser's step uses on the device, the learning rate included."""
    for group in optimizer.param_groups:
        group["capturable"] = True
        group["foreach"] = True  # one parameter at a time, some read the rate on the host
        group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=device)
