"""The FPS suite behind ``cule bench``: how fast cule is, beside other libraries on one machine.

What is where:

* `engines`: vector environments of cule, ale-py and EnvPool behind one face, or why there is none;
* `policies`: who chooses the actions: random rows made before, or a network inside the clock;
* `turns`: the one timing loop: engines by turns, compared and digested outside the clock;
* `training`: rounds of the learners of `cule.agents` by turns;
* `divergence`: each step after a common reset by itself;
* `meter`, `memory`, `machine`: how busy the device was, bytes a console, where a run takes place;
* `options`, `games`: what is measured: loads, games, sizes; a cell is one of each;
* `records`: a JSON file a cell, found again by ``--resume``;
* `report`, `plots`: records to tables and pictures;
* `suite`, `command`: cells one after the other; the command line.

Data flows one way: options -> cells -> engines in turns -> records -> tables and plots. Frames are
emulated frames (consoles x steps x frame skip), steps are agent steps of all consoles; the name of
a number has its unit. A speed without a check is no result: engines that must agree are compared
while they run, and every synchronous engine leaves a digest.

torch, matplotlib, ale-py and EnvPool are imported only where a run needs them.
"""

from __future__ import annotations

from cule.bench.engines import ENGINES, FRAMESKIP, Engine, make_engine, versions, why_missing
from cule.bench.errors import DifferentResultsError, EngineMissingError, OtherRunError
from cule.bench.games import ATARI_57, DEFAULT_GAMES
from cule.bench.interleaved import Comparison, quartiles, race
from cule.bench.machine import load_average, now, processor, source
from cule.bench.memory import bytes_per_console
from cule.bench.options import BenchOptions
from cule.bench.suite import run_suite

__all__ = [
    "ATARI_57",
    "DEFAULT_GAMES",
    "ENGINES",
    "FRAMESKIP",
    "BenchOptions",
    "Comparison",
    "DifferentResultsError",
    "Engine",
    "EngineMissingError",
    "OtherRunError",
    "bytes_per_console",
    "load_average",
    "make_engine",
    "now",
    "processor",
    "quartiles",
    "race",
    "run_suite",
    "source",
    "versions",
    "why_missing",
]
