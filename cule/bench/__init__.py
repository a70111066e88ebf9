"""The FPS suite behind ``cule bench``: speed of cule and other libraries on one machine.

* `engines`: vector environments of cule, ale-py and EnvPool behind one interface;
* `policies`: a network that chooses the actions inside the clock;
* `interleaved`: the timing loop: engines in interleaved rounds, with a comparison of their results;
* `training`: the agents of `cule.agents` in interleaved rounds;
* `divergence`: every step after a common reset, timed separately;
* `meter`, `memory`, `machine`: clocks and utilization, bytes per environment, hardware;
* `options`, `games`: loads, games, sizes and presets; a cell is one load, game and size;
* `records`: one JSON file per cell, which ``--resume`` finds again;
* `report`, `plots`: records to tables and plots;
* `suite`, `command`: all cells in order; the command line.

Data flows one way: options -> cells -> interleaved rounds -> records -> tables and plots. Frames
are emulated frames (environments x steps x frame skip), steps are agent steps of all environments.
A speed without a check is not a result: engines that must agree are compared while they run, and
every synchronous engine leaves a digest.

Importing this package imports none of them; torch, matplotlib, ale-py and EnvPool are imported only
when needed.
"""
