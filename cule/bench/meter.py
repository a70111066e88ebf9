"""Time of a round, and the utilization of the device if its driver reports it."""

from __future__ import annotations

import statistics
import threading
import time

SAMPLE_S = 0.05


class DeviceMeter:
    """Context manager that reads the clocks, and samples the utilization of a device in a thread.

    Attributes:
        wall_s: Seconds in the last ``with`` block, which must wait for the device itself.
        cpu_s: Processor seconds of all threads in it.

    Example:
        >>> with DeviceMeter("cpu") as meter:
        ...     pass
        >>> meter.mean() is None
        True
    """

    def __init__(self, device: str) -> None:
        """Make a meter of "cuda", "cuda:1", or "cpu", which has no utilization."""
        self.wall_s = self.cpu_s = 0.0
        self._device = device
        self._samples: list[float] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._can_read = utilization_of(device) is not None

    def __enter__(self) -> DeviceMeter:
        """Start to sample, and read the clocks."""
        if self._can_read:
            self._stop.clear()
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        self._start, self._cpu_start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        """Read the clocks, and stop."""
        self.wall_s = time.perf_counter() - self._start
        self.cpu_s = time.process_time() - self._cpu_start
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def forget(self) -> None:
        """Drop all samples."""
        self._samples.clear()

    def mean(self) -> float | None:
        """Mean of the samples in per cent; None without samples."""
        return statistics.fmean(self._samples) if self._samples else None

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            value = utilization_of(self._device)
            if value is not None:
                self._samples.append(value)


def utilization_of(device: str) -> float | None:
    """Recent utilization of a device in per cent; None if unknown."""
    if not device.startswith("cuda"):
        return None
    import torch

    try:
        return float(torch.cuda.utilization(device))
    except Exception:
        # There is no driver or no nvidia-ml-py, or the driver does not answer this question, for
        # which nvidia-ml-py has an exception of its own.
        return None
