"""Digests of the programs of all games, which are part of what snapshots call the same game.

``python -m tests.support.program_digests`` writes them to ``tests/golden/programs.json``, where the
version of the snapshot format has changed, or rules have.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cule.games.compiler import compile_rules
from cule.games.schema import load_games

TARGET = Path(__file__).resolve().parents[1] / "golden" / "programs.json"


def program_digests() -> dict[str, str]:
    """For each game, a digest of the words that make_key in csrc/host/game.hpp takes."""
    digests = {}
    for name, rules in load_games().items():
        compiled = compile_rules(rules)
        words = (compiled.state, compiled.step_code, compiled.lives_code, compiled.setup_code)
        digests[name] = hashlib.blake2b(repr(words).encode(), digest_size=6).hexdigest()
    return digests


if __name__ == "__main__":
    TARGET.write_text(json.dumps(program_digests(), indent=1) + "\n", encoding="utf-8")
