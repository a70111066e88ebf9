"""Reading pickled values without the module `pickle`: no code, and no more memory than their bytes.

A pickle is a program. This machine knows the instructions that `torch.save` writes for plain values
and tensors, and calls only what its caller names.
"""

from __future__ import annotations

import pickletools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from cule.errors import shown
from cule.reading import MAX_PICKLE_BYTES, MAX_PICKLE_VALUES

#: Keys of dictionaries. Hashes of texts are random; those of integers of so many bits differ.
_KEYS = (str, int, float, type(None))
_KEY_BITS = 60

_PLAIN = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
)
_FIXED = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], object]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Value:
    """A value with the number of values in it; one that is taken twice does not change."""

    __slots__ = ("is_shared", "size", "value")

    def __init__(self, value: Any, size: int = 1) -> None:
        self.value, self.size, self.is_shared = value, size, False


def unpickle(
    data: bytes, names: Mapping[str, object], persistent: Callable[[tuple[Any, ...]], object]
) -> object:
    """The value of a pickle.

    Args:
        data: Its bytes.
        names: What it may use by ``module name``: values, and functions that it calls.
        persistent: Values that are kept outside, by what names them.

    Raises:
        ValueError: It is damaged, uses something else, or has too many values.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise ValueError(f"a pickle of {len(data)} bytes; at most {MAX_PICKLE_BYTES} are read")
    machine = _Machine(names, persistent)
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return machine.pop().value
            machine.run(opcode.name, argument)
    except (IndexError, KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"a pickle that is not readable: {shown(error)}") from None
    raise ValueError("a pickle without an end")


class _Machine:
    """A stack, marks in it, and values to be taken again by their numbers."""

    def __init__(
        self,
        names: Mapping[str, object],
        persistent: Callable[[tuple[Any, ...]], object],
    ) -> None:
        self._names, self._persistent = names, persistent
        self._stack: list[_Value] = []
        self._marks: list[int] = []
        self._memo: dict[int, _Value] = {}
        self._num_values = 0

    def pop(self) -> _Value:
        return self._stack.pop()

    def _pop_mark(self) -> list[_Value]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _push(self, value: object, size: int = 1) -> None:
        self._stack.append(_Value(value, size))

    def _grow(self, target: _Value, items: list[_Value]) -> None:
        if target.is_shared:
            raise ValueError("a pickle changes a value that it has used")
        target.size += self._count(sum(item.size for item in items))

    def _count(self, size: int) -> int:
        """`size`, the number of values that are made or used; all together have a bound."""
        self._num_values += size
        if self._num_values > MAX_PICKLE_VALUES:
            raise ValueError(f"a pickle with more than {MAX_PICKLE_VALUES} values")
        return size

    def run(self, name: str, argument: Any) -> None:
        self._count(1)
        if name in _PLAIN:
            self._push(argument)
        elif name in _FIXED:
            self._push(_FIXED[name])
        elif name in _EMPTY:
            self._push(_EMPTY[name]())
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[argument])
            self._stack[-1].is_shared = True
        elif name == "MARK":
            self._marks.append(len(self._stack))
        elif name == "TUPLE":
            self._tuple(self._pop_mark())
        elif name in _TUPLES:
            self._tuple([self.pop() for _ in range(_TUPLES[name])][::-1])
        elif name in ("APPEND", "APPENDS"):
            self._append([self.pop()] if name == "APPEND" else self._pop_mark())
        elif name in ("SETITEM", "SETITEMS"):
            two = name == "SETITEM"
            self._set([self.pop(), self.pop()][::-1] if two else self._pop_mark())
        elif name == "GLOBAL":
            if argument not in self._names:
                raise ValueError(f"a pickle with {shown(argument)}, which is no plain value")
            self._push(self._names[argument])
        elif name == "REDUCE":
            arguments, function = self.pop(), self.pop().value
            if not callable(function):
                raise ValueError("a pickle that calls what is no function")
            size = self._count(arguments.size)
            self._push(function(*arguments.value), size)
        elif name == "BUILD":
            self._build(self.pop())
        elif name == "BINPERSID":
            self._push(self._persistent(self.pop().value))
        elif name != "PROTO":
            raise ValueError(f"a pickle with the instruction {name}")

    def _tuple(self, items: list[_Value]) -> None:
        made = _Value(())
        self._grow(made, items)
        made.value = tuple(item.value for item in items)
        self._stack.append(made)

    def _append(self, items: list[_Value]) -> None:
        target = self._stack[-1]
        if type(target.value) is not list:
            raise ValueError("a pickle that appends to what is no list")
        self._grow(target, items)
        target.value.extend(item.value for item in items)

    def _set(self, items: list[_Value]) -> None:
        target = self._stack[-1]
        keys, values = items[::2], items[1::2]
        if not isinstance(target.value, dict) or not all(map(_is_key, keys)):
            raise ValueError("a pickle with a key that is no text or number")
        self._grow(target, items)
        target.value.update((k.value, v.value) for k, v in zip(keys, values, strict=True))

    def _build(self, state: _Value) -> None:
        """Attributes of the dictionary of a network: the versions of its modules."""
        target = self._stack[-1]
        is_right = isinstance(target.value, OrderedDict) and isinstance(state.value, dict)
        if not is_right or state.value.keys() != {"_metadata"}:
            raise ValueError("a pickle that sets attributes")
        self._grow(target, [state])
        target.value._metadata = state.value["_metadata"]


def _is_key(key: _Value) -> bool:
    value = key.value
    return isinstance(value, _KEYS) and not (
        isinstance(value, int) and value.bit_length() > _KEY_BITS
    )
