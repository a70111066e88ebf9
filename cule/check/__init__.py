"""``cule check``: a first look at a machine.

`machine` says what was found, `equality` compares back ends bit for bit, `speed` measures frames
per second by size and kernel, and `command` prints all of it and writes a report. On a GPU the
fastest launch geometries are kept for later environments (`cule.envs.launch`).
"""
