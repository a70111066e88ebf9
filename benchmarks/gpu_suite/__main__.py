"""Command line of the GPU suite, ``benchmarks/gpu_suite.sh``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu_suite.device import DeviceMissingError, commit, describe_device
from benchmarks.gpu_suite.kit import KIT, find_kit
from benchmarks.gpu_suite.lines import FIRST, LINES, Setting
from benchmarks.gpu_suite.runner import LOG, StopSignal, Suite

#: Seconds of a run.
SECONDS = 400.0


def main() -> int:
    """Run the suite.

    Returns:
        0: every line is ok; 1: there is no GPU, or a command failed or was stopped at its limit;
        2: invalid request; 128 and the number of the signal that stopped the suite.
    """
    options = _parse()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, StopSignal.raise_it)
    try:
        device = describe_device()
    except DeviceMissingError as error:
        print(f"gpu_suite: {error}", file=sys.stderr)
        return 1
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / LOG).write_text("")
    folder = Path(os.environ.get("KIT", KIT)).resolve()
    kit = find_kit(folder)
    facts: dict[str, Any] = {"commit": commit(), "kit": kit}
    used = folder if isinstance(kit, dict) else None
    if isinstance(kit, dict):
        facts["commit"] = facts["commit"] or kit["commit"]
    else:
        print(f"{kit}: cule is built here", flush=True)
    os.environ["COMMIT"] = facts["commit"] or ""
    lines = [line for line in LINES.values() if line.name in options.parts]
    try:
        with tempfile.TemporaryDirectory(prefix="gpu-suite-") as work:
            setting = Setting(Path(work), device, used, options.dry_run)
            status = Suite(out, setting, lines, options.seconds, facts).run()
    except StopSignal as stop:
        return 128 + stop.number
    return 0 if status == "ok" else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpu_suite.sh",
        description="Measure and check on an NVIDIA GPU, within a number of seconds.",
        epilog="lines: " + "; ".join(f"{line.name}: {line.summary}" for line in LINES.values()),
    )
    parser.add_argument("out", type=Path, metavar="DIR", help="folder of the results")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"of all lines together ({SECONDS:g})"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        default=list(FIRST),
        metavar="LINE",
        help=f"lines to run, in their order; without it {', '.join(FIRST)}",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="tiny sizes on the mock CUDA device of the tests"
    )
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in LINES]
    if unknown:
        parser.error(f"unknown line {unknown[0]!r}; it must be one of {', '.join(LINES)}")
    if options.seconds <= 0:
        parser.error(f"seconds is {options.seconds:g}; it must be more than 0")
    # Without it nothing else runs.
    options.parts = ["install", *options.parts]
    return options


if __name__ == "__main__":
    sys.exit(main())
