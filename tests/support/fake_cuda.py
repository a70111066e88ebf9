"""A fake GPU for torch: tensors on cuda:0 in the memory of the host.

In: `fake_cuda`. Out: a `FakeCuda`. Every operation is checked for what a machine without a GPU
cannot show otherwise: that all tensors are on one device, that random generators belong to the
device, where the host waits for it, and that streams wait for each other
(`tests.support.stream_race_detector`). The lockstep shim runs kernels (`tests.support.kernels`);
CUDA graphs are recordings (`tests.support.recorded_graph`).

To torch's own C++ these are tensors of the CPU; only Python sees a GPU. So nothing is checked that
C++ does with a device by itself: memory pools, precisions, rules of kernels.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cule import _core, device
from cule import kernels as learner_kernels
from cule.envs import backend, translation
from cule.envs.cuda_batch import CudaBatch
from cule.envs.launch import Geometry
from tests.support import kernels, recorded_graph
from tests.support.stream_race_detector import Order, Stream, accesses

CPU = torch.device("cpu")
_MEMORY_BYTES = 80 << 30
_PACKAGE = str(Path(__file__).parents[2] / "cule")

#: What makes a host read a result, and so wait for it.
_READS = {
    *("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal"),
    *("aten::_unique2", "aten::unique_dim", "aten::repeat_interleave.Tensor"),
}
_INDEXING = {"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"}


class OnGpu(Tensor):
    """A tensor that says it is on a GPU; `inner` is the same memory as a tensor of the CPU."""

    inner: Tensor
    place: torch.device

    @staticmethod
    def __new__(cls, inner: Tensor, place: torch.device) -> OnGpu:
        self: OnGpu = Tensor._make_subclass(cls, inner, inner.requires_grad)
        self.inner, self.place = inner, place
        _tensors.add(self)
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: self.place)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnGpu({self.inner!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied: Tensor = OnGpu(self.inner.detach().clone(), self.place)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.inner.__reduce_ex__(protocol)  # as torch.load(..., map_location="cpu") reads it

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert cuda device type tensor to numpy; use Tensor.cpu() first")

    __array__ = numpy

    def tolist(self) -> Any:
        _wait("tolist")
        return self.inner.tolist()


class FakeCuda:
    """The fake while it is installed.

    Attributes:
        waits: What made the host wait for the device, and which lines of cule asked for it.
        current: Number of the device that "cuda" means.
        order: What comes before what on its streams.
        capture_stream: Where graphs are captured unless told.
        memory_bytes: Memory of the device; None: as much as the host has.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        """Begin without waits."""
        self.memory_bytes = memory_bytes
        self.waits: list[str] = []
        self.current = 0
        self.refuses_waits = False
        self.order = Order()
        self.capture_stream = Stream()


_tensors: weakref.WeakSet[OnGpu] = weakref.WeakSet()
_installed: list[FakeCuda] = []
#: Graphs that are being captured.
_graphs: list[_Graph] = []
#: Depth of moves between devices that Python asked for; C++ asks for "cpu" where it means "here".
_moves: list[bool] = []


def _wait(what: str) -> None:
    # Frames alone: a summary of each would look at its file.
    places = ((f.f_code.co_filename, line) for f, line in traceback.walk_stack(None))
    ours = (f"{Path(file).name}:{line}" for file, line in places if file.startswith(_PACKAGE))
    calls = " < ".join(itertools.islice(ours, 4))
    _installed[-1].waits.append(f"{what} at {calls}")
    if _installed[-1].refuses_waits or recorded_graph.is_recording():
        raise RuntimeError(f"called a synchronizing CUDA operation: {what}")
    _installed[-1].order.host_waited(for_all=what == "torch.cuda.synchronize")


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation on the inner tensors, if a device could do it."""
    name = func._schema.name
    flat, structure = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in flat if isinstance(leaf, Tensor)]
    places = {tensor.place for tensor in tensors if isinstance(tensor, OnGpu)}
    place = _place_of_result(name, kwargs, places)
    if name == "aten::_to_copy":
        if bool(places) != (place is not None) and not kwargs.get("non_blocking"):
            _wait("a copy to the host" if places else "a copy from the host")
    elif name == "aten::copy_":
        _check_copy(*args, **kwargs)
    elif places:
        _check_devices(name, args, tensors)
    inner = [leaf.inner if isinstance(leaf, OnGpu) else leaf for leaf in flat]
    inner_args, inner_kwargs = pytree.tree_unflatten(inner, structure)
    if inner_kwargs.get("device") is not None:
        inner_kwargs["device"] = CPU
    for host_only in ("pin_memory", "non_blocking"):
        if inner_kwargs.get(host_only):
            inner_kwargs[host_only] = False
    _note(func, args, kwargs)
    out = func(*inner_args, **inner_kwargs)
    given = {id(leaf.inner): leaf for leaf in flat if isinstance(leaf, OnGpu)}
    plain = {id(tensor) for tensor in tensors}
    memory = {x.untyped_storage()._cdata for x in inner if isinstance(x, Tensor)}

    def wrap(result: Tensor) -> Tensor:
        if id(result) in plain or place is None:
            return result
        found = given.get(id(result))
        if found is None:
            found = OnGpu(result, place)
            if result.untyped_storage()._cdata not in memory:
                _check_memory()
                _installed[-1].order.note(name, [], [result])
        return found

    return pytree.tree_map_only(Tensor, wrap, out)


def _note(func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Tell the order of streams which memory of the GPU an operation uses."""
    used = accesses(func, args, kwargs)
    read, written = ([x.inner for x in found if isinstance(x, OnGpu)] for found in used)
    if read or written:
        _installed[-1].order.note(func._schema.name, read, written)


def _noted(method: Callable[..., Any], num_read: int = 0) -> Callable[..., Any]:
    """A method of `CudaBatch` whose kernels use the environments and all tensors of the call."""

    @functools.wraps(method)
    def call(batch: CudaBatch, *args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        given = [x.inner for x in leaves if isinstance(x, OnGpu)]
        out = method(batch, *args, **kwargs)
        # Kernels come last: what the host copies to the device before them is waited for.
        order, name = _installed[-1].order, f"CudaBatch.{method.__name__}"
        order.note(name, given[:num_read], [*given[num_read:], batch])
        return out

    return call


def _launched(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that launches a kernel, which reads its tensors."""

    @functools.wraps(function)
    def call(native: Any, *given: Tensor) -> Tensor:
        out = function(native, *given)
        read = [x.inner for x in given if isinstance(x, OnGpu)]
        _installed[-1].order.note(function.__name__, read, [out.inner])
        return out

    return call


def _place_of_result(
    name: str, kwargs: dict[str, Any], places: set[torch.device]
) -> torch.device | None:
    """The GPU that results are on; None: the host."""
    wanted = kwargs.get("device")
    here = wanted is None or name.startswith("aten::new_")
    if places and (here or (name == "aten::_to_copy" and not _moves)):
        return next(iter(places))
    if wanted is None or torch.device(wanted).type != "cuda":
        return None
    found: torch.device = _with_index(torch.device(wanted))
    return found


def _check_copy(to: Tensor, source: Tensor, non_blocking: bool = False) -> None:
    if isinstance(to, OnGpu) != isinstance(source, OnGpu) and not non_blocking:
        _wait("a copy to the host" if isinstance(source, OnGpu) else "a copy from the host")


def _check_devices(name: str, args: Any, tensors: list[Tensor]) -> None:
    lost = [x for x in tensors if not isinstance(x, OnGpu) and x.dim() > 0]
    if name in _INDEXING:
        indices = [index for index in args[1] if index is not None]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            _wait("an index that is a mask")
        if isinstance(args[0], OnGpu) and any(not isinstance(i, OnGpu) for i in indices):
            _wait("an index from the host")
            lost = [x for x in lost if all(x is not index for index in indices)]
    if name.endswith("_") and not isinstance(args[0], (OnGpu, list, tuple)):
        lost.append(args[0])
    places = {str(x.place) for x in tensors if isinstance(x, OnGpu)} | ({"cpu"} if lost else set())
    if len(places) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(sorted(places))}! ({name})"
        )
    if name in _READS:
        _wait(name)


class _Operations(TorchDispatchMode):
    """Operations on tensors of the CPU that are to make some on the GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Calls from Python: moves between devices, which C++ does not see, and generators."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(_with_index(arg) for arg in args)
        kwargs = {key: _with_index(value) for key, value in (kwargs or {}).items()}
        _check_generator(args, kwargs)
        if func is Tensor.cpu:
            return _move(args[0], CPU)
        if func is Tensor.cuda:
            return _move(args[0], *args[1:] or (_with_index("cuda"),))
        if func is Tensor.to:
            return _to(*args, **kwargs)
        if func in (torch.tensor, torch.as_tensor):
            return self._make(func, *args, **kwargs)
        return func(*args, **kwargs)

    @staticmethod
    def _make(func: Any, data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
        if func is torch.as_tensor and isinstance(data, Tensor):
            return _move(data, device or data.device, dtype)
        made = func(data, dtype=dtype, **kwargs)
        return made if device is None else _move(made, device)


def _with_index(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("cuda"):
        value = torch.device(value)
    if isinstance(value, torch.device) and value.type == "cuda" and value.index is None:
        return torch.device("cuda", _installed[-1].current)
    return value


def _check_generator(args: Any, kwargs: dict[str, Any]) -> None:
    generator = kwargs.get("generator")
    if not isinstance(generator, _Generator):  # one that has been through C++ is not known
        return
    if _graphs and all(generator is not known for known in _graphs[-1].generators):
        raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    device = torch.device(kwargs.get("device") or (tensors[0].device if tensors else CPU))
    if _with_index(device) != generator.device:
        raise RuntimeError(
            f"Expected a '{device}' device type for generator but found '{generator.device}'"
        )


def _to(tensor: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    if args and isinstance(args[0], Tensor):
        return _move(tensor, args[0].device, args[0].dtype)
    device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args, **kwargs)
    return _move(tensor, device or tensor.device, dtype, non_blocking, copy, memory_format)


def _move(
    tensor: Tensor,
    device: Any,
    dtype: torch.dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Tensor:
    device, layout = _with_index(torch.device(device)), {}
    is_same = device == tensor.device and dtype in (None, tensor.dtype)
    if memory_format is not None:
        layout["memory_format"] = memory_format
        if memory_format is not torch.preserve_format:
            is_same = is_same and tensor.is_contiguous(memory_format=memory_format)
    if is_same and not copy:
        return tensor
    _moves.append(True)
    try:
        options = {"dtype": dtype, "device": device, "non_blocking": non_blocking}
        return torch.ops.aten._to_copy.default(tensor, **options, **layout)
    finally:
        _moves.pop()


def _move_module(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    """`Module.to`, which in C++ would give parameters the memory of others and not their class."""
    device, dtype, _, memory_format = torch._C._nn._parse_to(*args, **kwargs)
    moved: dict[int, Tensor] = {}

    def move(tensor: Tensor) -> Tensor:
        if id(tensor) not in moved:
            new = tensor.detach().to(
                device=_with_index(device) or tensor.device,
                dtype=dtype if tensor.is_floating_point() else None,
                memory_format=memory_format if tensor.dim() == 4 else None,
            )
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, tensor.requires_grad)
            moved[id(tensor)] = new
        return moved[id(tensor)]

    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = move(tensor)
    return module


class _Generator(torch._C.Generator):
    """`torch.Generator`; one of the GPU generates on the CPU and names its device."""

    _device = CPU

    def __new__(cls, device: Any = CPU) -> _Generator:
        self: _Generator = super().__new__(cls, "cpu")
        self._device = _with_index(torch.device(device))
        return self

    @property
    def device(self) -> torch.device:
        return self._device


class _Event:
    """An event, of the host's time."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: Stream | None = None) -> None:
        assert not recorded_graph.is_recording(), "an event of a graph has no time"
        self.time_s = time.perf_counter()

    def synchronize(self) -> None:
        _wait("Event.synchronize")

    def elapsed_time(self, end: _Event) -> float:
        assert self.enable_timing
        assert end.enable_timing
        return 1000 * (end.time_s - self.time_s)


class _Graph(recorded_graph.Recording):
    """A graph; launching it uses memory of libraries, and sets the state of its generators."""

    def __init__(self) -> None:
        super().__init__()
        self.generators: list[torch.Generator] = []
        self.stream = _installed[-1].capture_stream

    def register_generator_state(self, generator: torch.Generator) -> None:
        assert generator.device.type == "cuda"
        self.generators.append(generator)

    def replay(self) -> None:
        _installed[-1].order.note("a replay", [], [self.stream, *self.generators])
        super().replay()


@contextlib.contextmanager
def _capture(
    graph: _Graph, stream: Stream | None = None, capture_error_mode: str = ""
) -> Iterator[None]:
    graph.stream = stream or graph.stream
    _graphs.append(graph)
    try:
        with graph.record():
            yield
    finally:
        _graphs.pop()


def _allocated(device: Any = None) -> int:
    storages = {t.inner.untyped_storage()._cdata: t.inner.untyped_storage() for t in _tensors}
    return sum(storage.nbytes() for storage in storages.values())


def _free() -> int:
    """Free memory: that of the device less tensors and local memory of kernels."""
    total = _installed[-1].memory_bytes or _MEMORY_BYTES
    return total - _allocated() - int(kernels.module().reserve_local_memory(0))


def _check_memory() -> None:
    if _installed[-1].memory_bytes is not None and _free() < 0:
        raise torch.OutOfMemoryError("CUDA out of memory")


def _group_by_device(group: Any, lists: Any, *args: Any) -> Any:
    """`torch._C._group_tensors_by_device_and_dtype`, which takes all for tensors of the CPU."""

    def device_of(tensors: list[list[Tensor | None]]) -> torch.device:
        return next(tensor.device for tensor in tensors[0] if tensor is not None)

    groups = group(lists, *args)
    return {(device_of(found[0]), dtype): found for (_, dtype), found in groups.items()}


def _no_toolkit() -> Any:
    raise translation.MissingCompilerError("kernels of NVRTC cannot be loaded here")


def _translate(game: _core.Game, lanes_per_warp: int, _architecture: int) -> bytes:
    """`cule.envs.translation.translate`, for the shim."""
    return kernels.loadable(kernels.build_program(game, lanes_per_warp == 1))


_choose_compiled = CudaBatch._choose_kernel


def _choose_kernel(batch: CudaBatch, kernel: str, geometry: Geometry) -> None:
    """Without NVRTC, "auto" interprets; "compiled" has the kernel at once."""
    games = batch._plan.games
    if kernel != "compiled" or len(games) > 1 or translation.toolkit is not _no_toolkit:
        return _choose_compiled(batch, kernel, geometry)
    return batch.load_program(_translate(games[0], geometry.lanes_per_warp, 0))


def _install(patch: pytest.MonkeyPatch, count: int, memory_bytes: int | None) -> FakeCuda:
    cuda = torch.cuda
    fake = FakeCuda(memory_bytes)
    order = fake.order

    @contextlib.contextmanager
    def on_device(device: Any) -> Iterator[None]:
        before = fake.current
        index = device if isinstance(device, int) else torch.device(device).index
        fake.current = before if index in (None, -1) else index
        try:
            yield
        finally:
            fake.current = before

    def set_sync_debug_mode(mode: str) -> None:
        fake.refuses_waits = mode == "error"

    properties = types.SimpleNamespace(
        name="fake", major=9, minor=0, multi_processor_count=132, total_memory=_MEMORY_BYTES
    )
    for name, value in {
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: count,
        "current_device": lambda: fake.current,
        "set_device": lambda device: setattr(fake, "current", torch.device(device).index),
        "device": on_device,
        "get_device_properties": lambda device: properties,
        "get_device_capability": lambda device=None: (9, 0),
        "mem_get_info": lambda device=None: (_free(), fake.memory_bytes or _MEMORY_BYTES),
        "memory_reserved": _allocated,
        "memory_allocated": _allocated,
        "max_memory_allocated": _allocated,
        "memory_stats": lambda device=None: {"num_device_alloc": 0},
        "reset_peak_memory_stats": lambda device=None: None,
        "empty_cache": lambda: None,
        "synchronize": lambda device=None: _wait("torch.cuda.synchronize"),
        "set_sync_debug_mode": set_sync_debug_mode,
        "Stream": Stream,
        "Event": _Event,
        "current_stream": lambda device=None: order.current,
        "default_stream": lambda device=None: order.default,
        "stream": order.on,
        "CUDAGraph": _Graph,
        "graph": _capture,
        "is_current_stream_capturing": recorded_graph.is_recording,
    }.items():
        patch.setattr(cuda, name, value)
    patch.setattr(torch.version, "cuda", "13.0")
    autocast = torch.autocast
    patch.setattr(torch, "autocast", lambda _, *args, **kwargs: autocast("cpu", *args, **kwargs))
    patch.setattr(torch, "Generator", _Generator)
    patch.setattr(torch.nn.Module, "to", _move_module)
    patch.setattr(torch.nn.Module, "cuda", lambda module: _move_module(module, "cuda"))
    group = functools.partial(_group_by_device, torch._C._group_tensors_by_device_and_dtype)
    patch.setattr(torch._C, "_group_tensors_by_device_and_dtype", group)
    for module in (device, backend, learner_kernels):
        patch.setattr(module, "cuda_module", kernels.module)
    for name in ("_gather_blocks", "_linear_recurrence"):
        function = _launched(getattr(learner_kernels, name))
        patch.setattr(learner_kernels, name, recorded_graph.as_one_operation(function))
    patch.setattr(device, "_architecture_problem", lambda *_: None)
    patch.setattr(translation, "toolkit", _no_toolkit)
    patch.setattr(translation, "translate", _translate)
    patch.setattr(CudaBatch, "_choose_kernel", _choose_kernel)
    patch.setattr(cuda.profiler, "start", lambda: None)
    patch.setattr(cuda.profiler, "stop", lambda: None)
    step = _noted(CudaBatch.step, num_read=1)
    patch.setattr(CudaBatch, "step", recorded_graph.as_one_operation(step))
    for name in ("reset", "decorrelate", "observe", "get_state", "set_state", "screens"):
        patch.setattr(CudaBatch, name, _noted(getattr(CudaBatch, name)))
    _installed.append(fake)
    return fake


@contextlib.contextmanager
def fake_cuda(count: int = 1, memory_bytes: int | None = None) -> Iterator[FakeCuda]:
    """`count` GPUs inside the block; all share `memory_bytes`."""
    with pytest.MonkeyPatch.context() as patch, _Operations(), _Functions():
        try:
            yield _install(patch, count, memory_bytes)
        finally:
            _installed.pop()


@contextlib.contextmanager
def in_thread() -> Iterator[None]:
    """The GPUs in another thread, if there are any: what torch asks is set for each thread."""
    with contextlib.ExitStack() as stack:
        if _installed:
            stack.enter_context(_Operations())
            stack.enter_context(_Functions())
        yield
