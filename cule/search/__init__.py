"""Search with snapshots: archives of cells, and rollouts of whole batches from chosen states.

* `Archive` keeps the best snapshot of each cell, with the actions that lead to it, as in Go-Explore
  (Ecoffet et al. 2021, https://doi.org/10.1038/s41586-020-03157-9);
* `frame_cells` and `ram_cells` map observations and RAM to cells;
* `branch` continues from snapshots, several environments from each, and `rollout` plays on from
  there;
* `RandomActions` is the policy that holds each action for a while.

All of it is numpy on top of `AtariVectorEnv.get_state` and `AtariVectorEnv.set_state`, on either
back end. docs/search.md has worked examples.
"""

from __future__ import annotations

from cule.search.archive import Archive, Starts
from cule.search.cells import frame_cells, ram_cells
from cule.search.rollouts import RandomActions, Rollouts, branch, rollout

__all__ = [
    "Archive",
    "RandomActions",
    "Rollouts",
    "Starts",
    "branch",
    "frame_cells",
    "ram_cells",
    "rollout",
]
