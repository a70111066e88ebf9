"""Ids of the games of several players for PettingZoo's registry: ``cule/pong_v3`` and so on."""

from __future__ import annotations

import pettingzoo

from cule.games import load_multiplayer
from cule.pettingzoo.variants import names


def register_envs() -> None:
    """Register the ids with PettingZoo, unless they are registered.

    The names are those of ``pettingzoo.atari``, and of the games that it does not have. PettingZoo
    before 1.27 has no registry.
    """
    if not hasattr(pettingzoo, "register"):
        return
    others = [game for game, facts in load_multiplayer().items() if not facts.pettingzoo]
    for kind, entry, registry in (
        ("aec", "env", pettingzoo.aec_registry),
        ("parallel", "parallel_env", pettingzoo.parallel_registry),
    ):
        for name in (*names(), *others):
            spec = pettingzoo.EnvSpec(f"cule/{name}")  # it writes pong_v3 as pong-v3
            if spec.id not in registry:
                entry_point = f"cule.pettingzoo:{entry}"
                pettingzoo.register(kind, spec.id, entry_point, kwargs={"game": name})
