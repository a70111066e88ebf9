"""The order of work on the streams of the mock CUDA device, and what that order does not protect.

Work is done when it is asked for, so nothing goes wrong here. What would go wrong on a GPU is found
by clocks: each stream counts its operations and knows how far every other one was when it last
waited for it; each piece of memory knows who wrote and read it last. An access that does not come
after a write, or a write that does not come after a read, is a race. Memory that is freed goes
to whatever is allocated next on the stream it came from; so that stream must have waited for all
that used it.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

Clock = dict["Stream", int]


class Stream:
    """A stream: `torch.cuda.Stream`.

    Attributes:
        clock: How far every stream was in what comes before the next operation here.
        freed: How far every stream used memory that came from here and has been freed.
    """

    cuda_stream = 0

    def __init__(self, device: Any = None) -> None:
        """Know of nothing."""
        self.device = device
        self.clock: Clock = {}
        self.freed: Clock = {}
        _streams.add(self)

    def wait_stream(self, stream: Stream) -> None:
        _merge(self.clock, stream.clock)

    def tick(self) -> int:
        self.clock[self] = self.clock.get(self, 0) + 1
        return self.clock[self]


_streams: weakref.WeakSet[Stream] = weakref.WeakSet()


def _merge(clock: Clock, other: Clock) -> None:
    for stream, tick in list(other.items()):  # other threads may use it
        clock[stream] = max(clock.get(stream, 0), tick)


def _is_before(uses: Iterable[tuple[Stream, int]], clock: Clock) -> bool:
    return all(clock.get(stream, 0) >= tick for stream, tick in uses)


class Marks:
    """Who used a piece of memory."""

    def __init__(self, order: Order, home: Stream) -> None:
        """Nobody did; it comes from `home`."""
        self.order, self.home = order, home
        self.written: tuple[Stream, int] | None = None
        self.used: Clock = {}

    def __del__(self) -> None:
        """Freed."""
        _merge(self.home.freed, self.used)


class Order:
    """What comes before what.

    Attributes:
        default: The stream that work goes to unless told.
        current: The one it goes to now.
    """

    def __init__(self) -> None:
        """Everything is on one stream."""
        self.default = self.current = Stream()
        self._host: Clock = {}

    @contextlib.contextmanager
    def on(self, stream: Stream | None) -> Iterator[None]:
        """`torch.cuda.stream`."""
        before, self.current = self.current, stream or self.current
        try:
            yield
        finally:
            self.current = before

    def host_waited(self, *, for_all: bool = False) -> None:
        """All that is asked for from now on comes after the current stream's work, or all work."""
        for stream in list(_streams) if for_all else (self.current,):
            _merge(self._host, stream.clock)

    def note(self, name: str, read: Iterable[Any], written: Iterable[Any]) -> None:
        """An operation on the current stream.

        Args:
            name: What it is.
            read: Tensors on the host, whose memory it reads; or other objects.
            written: Those that it writes, or has made.

        Raises:
            RuntimeError: Another stream may be writing, or reading what this one writes, or using
                memory that this one gets.
        """
        stream = self.current
        _merge(stream.clock, self._host)
        if not _is_before(list(stream.freed.items()), stream.clock):
            raise RuntimeError(f"race: {name} may get memory that another stream uses still")
        stream.freed.clear()
        now = stream.tick()
        for things, writes in ((read, False), (written, True)):
            for thing in things:
                marks = self._marks(thing)
                before = list(marks.used.items()) if writes else filter(None, [marks.written])
                if not _is_before(before, stream.clock):
                    what = "writes" if writes else "reads"
                    raise RuntimeError(
                        f"race: {name} {what} what another stream may be using still"
                    )
                marks.used[stream] = now
                if writes:
                    marks.written = stream, now

    def _marks(self, thing: Any) -> Marks:
        holder = thing.untyped_storage() if isinstance(thing, Tensor) else thing
        marks: Marks | None = getattr(holder, "_marks", None)
        if marks is None or marks.order is not self:
            marks = holder._marks = Marks(self, self.current)
        return marks


def accesses(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Arguments that an operation reads, and those that it writes; a view does neither."""
    read, written = [], []
    parameters, makes_views = _signature(func)
    for place, (name, is_written) in enumerate(parameters):
        value = args[place] if place < len(args) else kwargs.get(name)
        found = value if isinstance(value, (list, tuple)) else [value]
        (written if is_written else read).extend(found)
    return ([], []) if makes_views and not written else (read, written)


@functools.cache
def _signature(func: Any) -> tuple[list[tuple[str, bool]], bool]:
    """Parameters, with whether they are written, and whether results share memory."""
    parameters = [
        (x.name, x.alias_info is not None and x.alias_info.is_write) for x in func._schema.arguments
    ]
    return parameters, any(result.alias_info for result in func._schema.returns)
