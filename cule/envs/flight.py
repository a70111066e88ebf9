"""Environments under way between `send` and `recv`.

On the CPU the batch queues steps for its threads. On a GPU `recv` launches the step.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.checks import NativeArray
from cule.envs.errors import CallOrderError, native_errors

if TYPE_CHECKING:
    from cule.envs.backend import Backend, Outputs


class Flight:
    """The environments of a batch that have been sent and not received."""

    def __init__(self, batch: Backend, num_envs: int, batch_size: int) -> None:
        """Begin with none.

        Args:
            batch: The environments.
            num_envs: How many there are.
            batch_size: How many a `receive` returns.
        """
        self.is_partial = batch_size != num_envs  # a step is of some environments
        self._num_held = 0  # environments whose step a GPU has not begun
        self._batch = batch
        self._batch_size = batch_size
        self.all_ids = np.arange(num_envs, dtype=np.int32)
        # Of some environments: those of the last received batch; None: it has been sent.
        self._ids: NDArray[np.int32] | None = None
        # Where a `receive` writes its environments, below 0 until it has: a signal's handler can
        # raise before `_ids` has them.
        self._landing: NDArray[np.int32] | None = None
        self._returned: Outputs | None = None  # by `give_back`

    @property
    def num_sent(self) -> int:
        """Environments sent and not received; on the CPU as the batch counts them."""
        if self._returned is not None:
            return self._batch_size
        batch = self._batch
        return batch.num_in_flight if isinstance(batch, _core.Batch) else self._num_held

    def next_ids(self) -> NDArray[np.int32]:
        """The environments that the next `send` is for.

        Raises:
            CallOrderError: The last batch has been sent already.
        """
        # Of all of them the count alone decides, as a signal can come before an assignment here.
        if not (self.is_partial or self.num_sent):
            return self.all_ids
        if self._landing is not None and self._landing[0] >= 0:
            self._ids = np.array(self._landing)
        if self._ids is None:
            raise CallOrderError("send() twice for one batch; call recv() first")
        return self._ids

    def send(self, actions: NativeArray) -> None:
        """Start a step of `next_ids`."""
        ids = self.next_ids()
        if isinstance(self._batch, _core.Batch):
            with native_errors:
                self._batch.send(actions, ids)
        else:
            self._actions, self._num_held = actions, self._batch_size
        self._ids = self._landing = None

    def send_all(self, seeds: NDArray[np.int64]) -> None:
        """Start resets of all environments, or with KEEP_STATE report them as they are."""
        assert isinstance(self._batch, _core.Batch), "batch_size is num_envs on a GPU"
        with native_errors:
            self._batch.send_reset(seeds)
        self._ids = self._landing = None

    def turn(self, lock: threading.RLock) -> AbstractContextManager[object]:
        """The turn of `receive`: on a GPU, which steps in it, that of the lock of all calls."""
        return nullcontext() if isinstance(self._batch, _core.Batch) else lock

    def receive(self, out: Outputs) -> Outputs:
        """Wait for a batch of environments; its results are in `out`, or those of `give_back`."""
        if not self.is_partial:
            return self.drain(out)
        landing = cast("NDArray[np.int32]", out.ints[_core.INT_ENV_ID])
        landing[:] = -1
        self._landing = landing
        self.drain(out)
        self._ids = np.array(landing)
        self._landing = None
        return out

    def drain(self, out: Outputs) -> Outputs:
        """Wait for all environments that have been sent; `out` has a row for each."""
        returned, self._returned = self._returned, None
        if returned is not None:
            return returned
        with native_errors:
            if isinstance(self._batch, _core.Batch):
                self._batch.recv(out)
            else:
                self._num_held = 0
                self._batch.step(self._actions, out)
        return out

    def give_back(self, out: Outputs | None) -> None:
        """Let the next `receive` return the results of a whole batch that `drain` has returned."""
        self._returned = out

    def check_landed(self, what: str) -> None:
        """Refuse a call while environments are under way."""
        if num_sent := self.num_sent:
            raise CallOrderError(
                f"{what} while {num_sent} environments have been sent; call recv() first"
            )

    def check_enough(self) -> None:
        """Refuse to receive environments that have not been sent."""
        if (num_sent := self.num_sent) < self._batch_size:
            raise CallOrderError(
                f"recv() of {self._batch_size} environments, but {num_sent} have been sent; "
                "call send() first"
            )
