"""Command line of the GPU suite: ``benchmarks/gpu_suite.sh [options] DIR [part...]``."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.gpu_suite.device import DeviceMissingError, describe_device
from benchmarks.gpu_suite.parts import PARTS, Setting
from benchmarks.gpu_suite.runner import StopSignal, run_part

#: Seconds of a part.
LIMIT_S = 480.0


def main() -> int:
    """Run the suite.

    Returns:
        0: every part is ok; 1: there is no GPU, or a part failed or was stopped at its limit; 2:
        invalid request; 128 and the number of the signal that stopped the suite.
    """
    options = _parse()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, StopSignal.raise_it)
    try:
        device = describe_device()
    except DeviceMissingError as error:
        print(f"gpu_suite: {error}", file=sys.stderr)
        return 1
    setting = Setting(options.out.resolve(), device, is_dry=options.dry_run)
    setting.out.mkdir(parents=True, exist_ok=True)
    try:
        states = [run_part(PARTS[name], setting, options.limit_s) for name in options.parts]
    except StopSignal as stop:
        return 128 + stop.number
    return 0 if set(states) == {"ok"} else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_suite.sh",
        description="Measure and check everything that needs an NVIDIA GPU.",
        epilog="parts: " + "; ".join(f"{part.name}: {part.summary}" for part in PARTS.values()),
    )
    parser.add_argument("out", type=Path, metavar="DIR", help="folder of the results")
    parser.add_argument("parts", nargs="*", metavar="part", help="all by default")
    parser.add_argument(
        "--limit-s", type=float, default=LIMIT_S, help=f"seconds of each part ({LIMIT_S:g})"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="tiny sizes on the mock CUDA device of the tests"
    )
    options = parser.parse_intermixed_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; it must be one of {', '.join(PARTS)}")
    if options.limit_s <= 0:
        parser.error(f"limit-s is {options.limit_s:g}; it must be more than 0")
    options.parts = list(dict.fromkeys(options.parts)) or list(PARTS)
    return options


if __name__ == "__main__":
    sys.exit(main())
