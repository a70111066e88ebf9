"""Sweeps: one preset in many games and seeds, as ``cule sweep`` does.

    command.py   ``cule sweep`` and ``cule plot``: options, checks, dry runs
    runs.py      the runs of a sweep: their folders and their processes
    schedule.py  starts runs, restarts lost ones from their checkpoints, and shows a live table
    ray_tasks.py runs as tasks of a Ray cluster
    report.py    scores, aggregates, profiles and curves of a sweep: CSV, LaTeX, pictures

Every run is a ``cule train --resume`` in a folder GAME/seed-SEED of the folder of the sweep, which
holds everything that a later call needs to continue.
"""
