"""PettingZoo: the Atari games of two and four players with its interfaces.

* `parallel_env`: all players act at once, `AtariParallelEnv`;
* `env`: the players act one after the other (AEC).

Names, arguments and conventions are those of ``pettingzoo.atari``; docs/multiplayer.md shows both
in use. Needs ``pip install 'cule[pettingzoo]'``.
"""

from __future__ import annotations

from cule.pettingzoo.parallel import AtariParallelEnv, env, parallel_env

__all__ = ["AtariParallelEnv", "env", "parallel_env"]
