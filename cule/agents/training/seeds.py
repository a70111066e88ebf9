"""Seeds of the random streams of a run: the seed of the config plus offsets."""

from __future__ import annotations

#: Offsets of the streams of one process.
WEIGHTS_SEED, ACTING_SEED, REPLAY_SEED, EVALUATION_SEED = 0, 101, 202, 303

#: Distances between the seeds of two ranks, and of two actor processes.
RANK_SEED_STRIDE, ACTOR_SEED_STRIDE = 1_000_003, 10_007
