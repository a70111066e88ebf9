"""`Archive`: the best snapshot of each cell, and how to get there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cule.envs.checks import Array, as_array, as_int, to_numpy
from cule.envs.errors import ArgumentTypeError
from cule.envs.packing import pack_states, unpack_states
from cule.errors import CapacityError, InvalidArgumentError, InvalidStateError, shown
from cule.files import replace_file
from cule.reading import as_path, read_arrays
from cule.search.cells import as_cells
from cule.search.rollouts import check_env

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cule.envs.single_agent import AtariVectorEnv

#: Version of the files of `Archive.save`.
_FILE_VERSION = 1

#: Visits of a cell in a file; a cell can have as many more.
_MAX_VISITS = 2**62

#: Arrays of a file: kind of dtype, and number of dimensions.
_ARRAYS = {
    "version": ("i", 0),
    "cells": ("u", 2),
    "scores": ("f", 1),
    "steps": ("i", 1),
    "visits": ("i", 1),
    "ways": ("i", 1),
    "parents": ("i", 1),
    "action_counts": ("i", 1),
    "actions": ("u", 1),
    "state_sizes": ("i", 1),
    "states": ("u", 1),
}
_SIZES = ("action_counts", "state_sizes")


class Starts(NamedTuple):
    """Snapshots of an archive to continue from, and how they were reached; ``[n]`` each."""

    states: NDArray[np.uint8]
    """Snapshots for `AtariVectorEnv.set_state`, ``[n, state_size]``."""

    rows: NDArray[np.int64]
    """Rows of the archive."""

    scores: NDArray[np.float64]
    """Scores since the start."""

    steps: NDArray[np.int64]
    """Steps since the start."""

    ways: NDArray[np.int64]
    """Numbers of the ways to them, which stay as they are when a row gets a better one."""


class Archive:
    """Cells, each with the snapshot of the best way to it: highest score, then fewest steps.

    Rows are numbered from 0 in the order in which their cells were found, and keep their numbers.
    Snapshots are kept compressed: 1 to 11 KB each with ``resets="cached"``, else 8 KB more.

    Example:
        >>> import cule
        >>> from cule.search import Archive, frame_cells
        >>> env = cule.AtariVectorEnv("pong", 2, img_height=11, img_width=8, stack_num=1)
        >>> obs, _ = env.reset(seed=0)
        >>> archive = Archive(env)
        >>> archive.add(frame_cells(obs), scores=0, steps=0).tolist()
        [0]
        >>> starts = archive.choose(env.num_envs, np.random.default_rng(0))
        >>> env.set_state(starts.states)
    """

    def __init__(self, env: AtariVectorEnv, max_cells: int = 1_000_000) -> None:
        """Make an empty archive.

        Args:
            env: Whose snapshots are kept. Without sticky actions, so that the actions of a cell
                lead to it again, and with ``noop_max=0``, so that all episodes begin alike. With
                ``use_fire_reset=False`` they lead to it from a reset of `cule.ALEInterface` too.
            max_cells: Cells that it holds at most; at 3 KB each a million takes 3 GB. The actions
                of ways that were replaced stay as well, because others may go on from them.
        """
        check_env(env)
        self._env = env
        self.max_cells = as_int("max_cells", max_cells, 1)
        self._rows: dict[bytes, int] = {}
        self._states: list[bytes] = []
        self._scores = np.zeros(64)
        self._steps = np.zeros(64, np.int64)
        self._visits = np.zeros(64, np.int64)
        # A way is the way that it continues, and the actions since.
        self._ways: list[int] = []  # of rows
        self._parents: list[int] = []  # of ways; -1 where one begins
        self._actions: list[NDArray[np.uint8]] = []  # of ways

    def __len__(self) -> int:
        """The number of cells."""
        return len(self._states)

    def __repr__(self) -> str:
        """How many cells, and the best score."""
        best = f", best score {self.scores.max():g}" if len(self) else ""
        return f"Archive({len(self)} cells{best})"

    @property
    def scores(self) -> NDArray[np.float64]:
        """Score of the way to each cell, ``[cells]``; a copy."""
        scores: NDArray[np.float64] = self._scores[: len(self)].copy()
        return scores

    @property
    def steps(self) -> NDArray[np.int64]:
        """Steps of the way to each cell, ``[cells]``; a copy."""
        steps: NDArray[np.int64] = self._steps[: len(self)].copy()
        return steps

    @property
    def visits(self) -> NDArray[np.int64]:
        """How often `choose` has chosen each cell, ``[cells]``; a copy."""
        visits: NDArray[np.int64] = self._visits[: len(self)].copy()
        return visits

    @property
    def cells(self) -> NDArray[np.uint8]:
        """The cells, uint8 ``[cells, K]``; a copy."""
        data = np.frombuffer(b"".join(self._rows), np.uint8)
        shape = (len(self), -1) if len(self) else (0, 0)
        cells: NDArray[np.uint8] = data.reshape(shape).copy()
        return cells

    @property
    def num_bytes(self) -> int:
        """Bytes of all snapshots and actions."""
        return sum(map(len, self._states)) + sum(len(actions) for actions in self._actions)

    def add(
        self,
        cells: Array,
        scores: Array,
        steps: Array,
        *,
        mask: Array = None,
        since: Starts | None = None,
        actions: Array = None,
    ) -> NDArray[np.int64]:
        """Keep environments, as they are now, whose cell is new or reached in a better way.

        Args:
            cells: uint8 ``[N, K]``, the cell of each environment.
            scores: Score since the start, ``[N]``, or one number for all.
            steps: Steps since the start, integers ``[N]``, or one number for all.
            mask: Which environments may be kept, bool ``[N]``; all by default. Leave out those
                whose episode has ended.
            since: What the environments have continued from; by default the start.
            actions: What they have done since, integers ``[T, N]``; none by default.

        Returns:
            The environments whose snapshots were kept, int64 ``[k]``.

        Raises:
            InvalidArgumentError: Another dtype or shape, or a row that the archive does not have.
            CapacityError: There are more than `max_cells`; nothing has changed.
        """
        n = self._env.num_envs
        keys = as_cells(cells, n)
        if len(self) and (size := len(next(iter(self._rows)))) != keys.shape[1]:
            raise InvalidArgumentError(
                f"cells has {keys.shape[1]} bytes for each environment; those of this archive "
                f"have {size}"
            )
        score = _by_env("scores", scores, n, float)
        length = _by_env("steps", steps, n, np.int64)
        may = np.ones(n, bool) if mask is None else as_array("mask", mask, "bool", (n,))
        if not (np.isfinite(score[may]).all() and (length[may] >= 0).all()):
            raise InvalidArgumentError("scores must be finite numbers, and steps at least 0")
        ways = self._ways_since(since, n)
        done = _as_history(actions, n)
        chosen = self._better(keys, score, length, np.flatnonzero(may))
        new = sum(keys[i].tobytes() not in self._rows for i in chosen)
        if len(self) + new > self.max_cells:
            raise CapacityError(
                f"{len(self)} cells and {new} new ones; capacity is max_cells={self.max_cells}"
            )
        if len(chosen):
            packed = pack_states(self._env.get_state(chosen))
            for i, state in zip(chosen.tolist(), packed, strict=True):
                row = self._row_of(keys[i].tobytes())
                self._states[row] = state
                self._scores[row], self._steps[row] = score[i], length[i]
                self._ways[row] = len(self._parents)
                self._parents.append(int(ways[i]))
                self._actions.append(done[:, i].copy())
        return chosen

    def _better(
        self,
        keys: NDArray[np.uint8],
        score: NDArray[np.float64],
        length: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Choose the best environment of each cell, if it is better than what is kept."""
        order = rows[np.lexsort((length[rows], -score[rows]))]
        best: dict[bytes, int] = {}
        for i, key in zip(order.tolist(), map(bytes, keys[order]), strict=True):
            best.setdefault(key, i)
        found = []
        for key, i in best.items():
            row = self._rows.get(key)
            if row is None or (score[i], -length[i]) > (self._scores[row], -self._steps[row]):
                found.append(i)
        return np.array(found, np.int64)

    def _row_of(self, key: bytes) -> int:
        row = self._rows.setdefault(key, len(self))
        if row == len(self._states):
            if row == len(self._scores):
                more = np.zeros(max(row, 64))
                self._scores = np.concatenate([self._scores, more])
                self._steps = np.concatenate([self._steps, more.astype(np.int64)])
                self._visits = np.concatenate([self._visits, more.astype(np.int64)])
            self._states.append(b"")
            self._ways.append(-1)
        return row

    def _ways_since(self, since: Starts | None, n: int) -> NDArray[np.int64]:
        if since is None:
            return np.full(n, -1, np.int64)
        if not isinstance(since, Starts):
            raise InvalidArgumentError(f"since is {shown(since)}; it must be the result of starts")
        ways: NDArray[np.int64] = as_array("since.ways", since.ways, "integers", (n,))
        if n and not (ways.min() >= -1 and ways.max() < len(self._parents)):
            raise InvalidArgumentError("since is not from this archive: it has no such ways")
        return ways

    def _as_rows(self, rows: Array, count: int | None = None) -> NDArray[np.int64]:
        array = np.atleast_1d(_as_numbers("rows", rows))
        if not array.size:
            raise InvalidArgumentError(f"rows is {shown(rows)}; it must have at least one")
        array = as_array("rows", array, "integers", (len(array) if count is None else count,))
        if not (array.min() >= 0 and array.max() < len(self)):
            raise InvalidArgumentError(
                f"rows are in {array.min()}..{array.max()}; the archive has 0..{len(self) - 1}"
            )
        found: NDArray[np.int64] = array.astype(np.int64)
        return found

    def choose(self, count: int, rng: np.random.Generator) -> Starts:
        """Draw rows with probabilities ``1 / sqrt(visits + 1)``, and count them as visited.

        Args:
            count: How many, with replacement.
            rng: Decides which.

        Raises:
            InvalidArgumentError: The archive is empty, or `count` is not positive.
        """
        if not isinstance(rng, np.random.Generator):
            raise ArgumentTypeError(
                f"rng is {shown(rng)}; it must be a numpy.random.Generator, such as "
                "numpy.random.default_rng(0)"
            )
        if not len(self):
            raise InvalidArgumentError("choose() from an empty archive; add() the start first")
        weights = 1 / np.sqrt(self._visits[: len(self)] + 1)
        rows = rng.choice(len(self), as_int("count", count, 1), p=weights / weights.sum())
        starts = self.starts(rows)
        np.add.at(self._visits, rows, 1)
        return starts

    def starts(self, rows: Array) -> Starts:
        """The snapshots of these rows, integers ``[n]``.

        Raises:
            InvalidArgumentError: A row that the archive does not have, or none at all.
        """
        chosen = self._as_rows(rows)
        unique, inverse = np.unique(chosen, return_inverse=True)
        packed = [self._states[row] for row in unique]
        states = unpack_states(packed, self._env.state_size)[inverse]
        ways = np.array([self._ways[row] for row in chosen], np.int64)
        return Starts(states, chosen, self._scores[chosen], self._steps[chosen], ways)

    def best(self) -> int:
        """The row with the highest score; of several the one with the fewest steps.

        Raises:
            InvalidArgumentError: The archive is empty.
        """
        if not len(self):
            raise InvalidArgumentError("best() of an empty archive")
        return int(np.lexsort((self.steps, -self.scores))[0])

    def actions(self, row: int) -> NDArray[np.uint8]:
        """All actions from the start to the snapshot of a row, uint8 ``[steps]``.

        Raises:
            InvalidArgumentError: A row that the archive does not have.
        """
        way, parts = self._ways[int(self._as_rows(row, 1)[0])], []
        while way >= 0:
            parts.append(self._actions[way])
            way = self._parents[way]
        return np.concatenate([np.empty(0, np.uint8), *reversed(parts)])

    # --- Files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the archive to a file that is complete or absent.

        Raises:
            StorageError: It cannot be written.
        """
        arrays: dict[str, Any] = {
            "version": np.array(_FILE_VERSION),
            "cells": self.cells,
            "scores": self.scores,
            "steps": self.steps,
            "visits": self.visits,
            "ways": np.array(self._ways, np.int64),
            "parents": np.array(self._parents, np.int64),
            "action_counts": np.array([len(part) for part in self._actions], np.int64),
            "actions": np.concatenate([np.empty(0, np.uint8), *self._actions]),
            "state_sizes": np.array([len(state) for state in self._states], np.int64),
            "states": np.frombuffer(b"".join(self._states), np.uint8),
        }
        replace_file(path, lambda file: np.savez(file, **arrays))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], env: AtariVectorEnv, max_cells: int = 1_000_000
    ) -> Archive:
        """Read a file of `save`.

        Args:
            path: The file.
            env: As in the constructor; its options are those of the environment of the archive.
            max_cells: As in the constructor.

        Raises:
            FileNotFoundError: There is no such file.
            InvalidStateError: It is no such file, its parts are damaged, or its snapshots are of
                another size. A damaged snapshot is found when it is used.
            CapacityError: It has more than `max_cells`.
        """
        archive = cls(env, max_cells)
        file = as_path("path", path)
        try:
            archive._fill(read_arrays(file, _ARRAYS))
        except (FileNotFoundError, CapacityError):
            raise
        except (OSError, ValueError) as error:
            raise InvalidStateError(f"{path} is not a file of Archive.save(): {error}") from None
        if len(archive):
            try:
                archive.starts(0)
            except InvalidStateError as error:
                raise InvalidStateError(
                    f"{path} has snapshots of another size than env, whose have "
                    f"{env.state_size} bytes, or damaged ones: {error}"
                ) from None
        return archive

    def _fill(self, data: dict[str, NDArray[Any]]) -> None:
        for name, (kind, ndim) in _ARRAYS.items():
            is_wide = kind == "u" and data[name].itemsize > 1
            if data[name].dtype.kind != kind or is_wide or data[name].ndim != ndim:
                raise ValueError(
                    f"{name} has {data[name].ndim} dimensions and dtype {data[name].dtype}"
                )
        if (version := int(data["version"])) != _FILE_VERSION:
            raise ValueError(f"it has version {version}; this is {_FILE_VERSION}")
        count, num_ways = len(data["cells"]), len(data["parents"])
        if count > self.max_cells:
            raise CapacityError(f"{count} cells; capacity is max_cells={self.max_cells}")
        ways, parents = data["ways"], data["parents"]
        visits, steps = data["visits"].astype(np.int64), data["steps"].astype(np.int64)
        self._rows = {cell.tobytes(): row for row, cell in enumerate(data["cells"])}
        by_cell = ("scores", "steps", "visits", "ways", "state_sizes")
        if (
            any(data[name].shape != (count,) for name in by_cell)
            or any((data[name] < 0).any() for name in ("steps", "visits", *_SIZES))
            or (visits > _MAX_VISITS).any()
            or data["action_counts"].shape != (num_ways,)
            or data["state_sizes"].sum() != len(data["states"])
            or data["action_counts"].sum() != len(data["actions"])
            or not ((ways >= 0) & (ways < num_ways)).all()
            or not ((parents >= -1) & (parents < np.arange(num_ways))).all()
            or not np.isfinite(data["scores"]).all()
            or len(self._rows) != count
        ):
            raise ValueError("its parts do not fit together")
        self._scores, self._steps, self._visits = data["scores"].copy(), steps, visits
        self._ways, self._parents = ways.tolist(), parents.tolist()
        self._actions = _split(data["actions"], data["action_counts"])
        self._states = [part.tobytes() for part in _split(data["states"], data["state_sizes"])]


def _split(values: NDArray[np.uint8], sizes: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
    """Consecutive parts of these sizes."""
    return np.split(values, np.cumsum(sizes)[:-1]) if len(sizes) else []


def _as_numbers(name: str, value: Array) -> NDArray[Any]:
    try:
        return np.asarray(to_numpy(value))
    except ValueError:  # lists of different lengths
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must be an array") from None


def _by_env(name: str, value: Array, n: int, dtype: Any) -> NDArray[Any]:
    """Numbers by environment, ``[N]``; one number is for all."""
    array = _as_numbers(name, value)
    if array.dtype.kind not in ("iuf" if dtype is float else "iu") or array.shape not in ((), (n,)):
        raise InvalidArgumentError(
            f"{name} has shape {array.shape} and dtype {array.dtype}; it must be numbers [{n}]"
        )
    return np.broadcast_to(array.astype(dtype), (n,))


def _as_history(actions: Array, n: int) -> NDArray[np.uint8]:
    if actions is None:
        return np.empty((0, n), np.uint8)
    array = _as_numbers("actions", actions)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != n:
        raise InvalidArgumentError(
            f"actions has shape {array.shape} and dtype {array.dtype}; it must be integers [T, {n}]"
        )
    if array.size and not (array.min() >= 0 and array.max() < 256):
        raise InvalidArgumentError(f"actions are in {array.min()}..{array.max()}; not in 0..255")
    return array.astype(np.uint8)
