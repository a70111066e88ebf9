"""Time to compile each game's own kernel, its size and registers; needs NVRTC and no GPU.

Compiles for one architecture as an environment does in the background: once what all games share,
then of each game a first kernel and the whole one, and finds this on disk. Writes
`benchmarks/results/translations.json`.

    python -m benchmarks.sass.translations --games 57
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.sass.module import REGISTERS, read_attribute, read_sections
from cule.bench.games import games_named
from cule.envs import translation
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch

RECORD = Path(__file__).resolve().parents[1] / "results" / "translations.json"
_MADE_OF = re.compile(r"(\d+) instructions in (\d+) blocks")


def read_code(module: bytes) -> tuple[int, int]:
    """Bytes of machine code, and the most registers of a function."""
    sections = read_sections(module)
    size = sum(len(content) for name, content in sections if name.startswith(".text."))
    return size, max(read_attribute(dict(sections)[".nv.info"], REGISTERS).values())


def timed(function: Callable[..., Any], *arguments: object) -> tuple[Any, float, float]:
    """The result of a call, seconds, and seconds of the processor in processes that it ran."""

    def processor_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    processor, begin = processor_s(), time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - begin, processor_s() - processor


def game_named(name: str) -> Any:
    """A game of the native module."""
    options = resolve_options(name, 1, {"num_reset_states": 1, "num_threads": 1})
    return plan_batch(options).games[0]


def measure(name: str, lanes_per_warp: int, architecture: int) -> dict[str, Any]:
    """One game, compiled and loaded from the cache, which has what games share."""
    game = game_named(name)
    source, source_s, _ = timed(translation.source_of, game, lanes_per_warp)
    wanted = translation.Wanted(game, lanes_per_warp, architecture)
    first_s: list[float] = []
    begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)

    def publish(_: bytes) -> None:
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        first_s.append(time.perf_counter() - begin)
        first_s.append(now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)

    code, compile_s, processor_s = timed(wanted.compile, publish)
    wanted.store(code)
    again, found_s, _ = timed(wanted.load)
    assert again == code
    made_of = _MADE_OF.search(source)
    assert made_of is not None
    code_bytes, registers = read_code(code)
    return {
        "game": name,
        "bankswitch": game.bankswitch,
        "instructions": int(made_of[1]),
        "blocks": int(made_of[2]),
        "source_s": round(source_s, 2),
        "first_s": round(first_s[0], 1) if first_s else None,
        "first_processor_s": round(first_s[1], 1) if first_s else None,
        "compile_s": round(compile_s, 1),
        "processor_s": round(processor_s, 1),
        "found_s": round(found_s, 5),
        "code_bytes": code_bytes,
        "module_bytes": len(code),
        "most_registers": registers,
    }


def main() -> None:
    """Compile what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--games", nargs="+", default=["57"], help="names, or default, 57, all")
    parser.add_argument("--lanes", type=int, default=2, help="a warp; 1 has a kernel of its own")
    parser.add_argument("--architecture", type=int, default=90, help="90 is sm_90")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    records = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CULE_CACHE"] = folder
        names = games_named(options.games)
        any_game = game_named(names[0])
        shared = translation.Wanted(any_game, options.lanes, options.architecture).shared_part()
        _, shared_s, shared_processor_s = timed(shared)
        for name in names:
            records.append(measure(name, options.lanes, options.architecture))
            print(records[-1], file=sys.stderr, flush=True)
    settings: dict[str, Any] = {"lanes": options.lanes, "architecture": options.architecture}
    settings["nvrtc"] = "{}.{}".format(*translation.toolkit().version)
    settings["shared_s"] = round(shared_s, 1)
    settings["shared_processor_s"] = round(shared_processor_s, 1)
    lines = ",\n".join(json.dumps(record) for record in records)
    options.out.write_text(f'{{"settings": {json.dumps(settings)}, "records": [\n{lines}\n]}}\n')
    keys = ("first_s", "first_processor_s", "compile_s", "processor_s", "code_bytes", "found_s")
    for key in keys:
        values = [record[key] for record in records if record[key] is not None]
        print(f"{key}: median {statistics.median(values)}, most {max(values)}")


if __name__ == "__main__":
    main()
