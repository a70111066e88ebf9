"""PettingZoo: the Atari games of two and four players with its interfaces.

* `parallel_env`: all players act at once, `AtariParallelEnv`;
* `env`: the players act one after the other (AEC);
* ``pong_v3`` and the other names of ``pettingzoo.atari`` have both for one game;
* with PettingZoo 1.27 or newer, ``pettingzoo.make("parallel", "cule/pong_v3")`` makes them, too.

Names, arguments and conventions are those of ``pettingzoo.atari``; docs/multiplayer.md shows both
in use. Needs ``pip install 'cule[pettingzoo]'``.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from cule.pettingzoo.parallel import AtariParallelEnv, env, parallel_env
from cule.pettingzoo.registration import register_envs
from cule.pettingzoo.variants import names

__all__ = ["AtariParallelEnv", "env", "parallel_env"]

register_envs()


def __getattr__(name: str) -> SimpleNamespace:
    if name not in names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return SimpleNamespace(env=partial(env, name), parallel_env=partial(parallel_env, name))
