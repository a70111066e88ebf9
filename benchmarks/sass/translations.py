"""Time to compile each game's own kernel, its size and registers; needs NVRTC and no GPU.

Compiles the kernel of each game for one architecture, as an environment does in the background with
``kernel="compiled"``, and finds it again. Writes `benchmarks/results/translations.json`.

    python -m benchmarks.sass.translations --games 57
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.sass.module import read_module
from cule.bench.games import games_named
from cule.envs import translation
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch

RECORD = Path(__file__).resolve().parents[1] / "results" / "translations.json"
_MADE_OF = re.compile(r"(\d+) instructions in (\d+) blocks")


def timed(function: Callable[..., Any], *arguments: object) -> tuple[Any, float, float]:
    """The result of a call, seconds, and seconds of the processor."""
    processor, begin = time.process_time(), time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - begin, time.process_time() - processor


def measure(name: str, lanes_per_warp: int, architecture: str) -> dict[str, Any]:
    """One game, compiled and loaded from the cache."""
    options = resolve_options(name, 1, {"num_reset_states": 1, "num_threads": 1})
    game = plan_batch(options).games[0]
    source, source_s, _ = timed(translation.source_of, game, lanes_per_warp)
    request = translation.translate, game, lanes_per_warp, architecture
    path, compile_s, processor_s = timed(*request)
    again, found_s, _ = timed(*request)
    assert again == path
    made_of = _MADE_OF.search(source)
    assert made_of is not None
    module = read_module(path.read_bytes(), "cule_step")
    return {
        "game": name,
        "bankswitch": game.bankswitch,
        "instructions": int(made_of[1]),
        "blocks": int(made_of[2]),
        "source_s": round(source_s, 2),
        "compile_s": round(compile_s, 1),
        "processor_s": round(processor_s, 1),
        "found_s": round(found_s, 5),
        "code_bytes": len(module.code),
        "module_bytes": path.stat().st_size,
        "registers": module.registers,
    }


def main() -> None:
    """Compile what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--games", nargs="+", default=["57"], help="names, or default, 57, all")
    parser.add_argument("--lanes", type=int, default=2, help="a warp; 1 has a kernel of its own")
    parser.add_argument("--architecture", default="sm_90")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    records = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CULE_CACHE"] = folder
        for name in games_named(options.games):
            records.append(measure(name, options.lanes, options.architecture))
            print(records[-1], file=sys.stderr, flush=True)
    settings = {"lanes": options.lanes, "architecture": options.architecture}
    settings["nvrtc"] = translation.compiler().version
    lines = ",\n".join(json.dumps(record) for record in records)
    options.out.write_text(f'{{"settings": {json.dumps(settings)}, "records": [\n{lines}\n]}}\n')
    for key in ("compile_s", "processor_s", "code_bytes", "found_s"):
        values = [record[key] for record in records]
        print(f"{key}: median {statistics.median(values)}, most {max(values)}")


if __name__ == "__main__":
    main()
