"""Ape-X on a Ray cluster: actors and replay shards on its nodes, the learner in this process.

    acting.py      `Player`: plays, and gives blocks of steps with their first priorities
    shard.py       `Shard`: a part of the replay memory, one ring for each of its actors
    group.py       `ClusterGroup`: starts, feeds, replaces and counts them
    replay.py      `ClusterReplay`: the memory as the learner sees it, with prefetched batches
    connection.py  the connection to a cluster, and the checks before anything starts

`Player` and `Shard` are plain classes, which `ClusterGroup` runs as Ray actors. The learner asks an
actor for a block; the block stays in the object store of the node that played it, and moves from
there to the shard of the actor, once. At most `BLOCKS_AHEAD` blocks of an actor are requested, in
transit, or stored and not yet learned for. So actors wait for a slow learner, and the memory in use
is bounded.

A block is counted when its shard confirms it, or reported as lost: the requested blocks of an actor
or shard that died. The actor that replaces it starts new episodes.
"""
