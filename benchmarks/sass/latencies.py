"""Cycles that the machine code does not say; everything that is assumed about a multiprocessor.

Instructions of fixed latency, votes among them, need nothing here: the compiler has put it into
their stall counts. Those of variable latency release a scoreboard. Loads hit the first level of
the cache, without conflicts between banks. Nothing here was measured on a GPU: loads, constants and
shuffles are what is published for the architectures since Volta, the others are of that order.
"""

from __future__ import annotations

#: From issue to the release of the write scoreboard, by the name of an instruction.
LATENCIES = {
    **dict.fromkeys(("LDS", "STS"), 29),
    **dict.fromkeys(("LD", "LDG", "LDL", "ST", "STG", "STL"), 37),
    "LDC": 38,
    **dict.fromkeys(("SHFL", "REDUX", "MATCH"), 23),
    "ATOMS": 60,
    **dict.fromkeys(("ATOM", "ATOMG", "RED", "REDG"), 250),
}
#: More for a load of 64 or of 128 bits.
WIDE = {"64": 2, "128": 4}
#: Of others that release a write scoreboard (conversions, POPC, MUFU, float64, S2R).
OTHER = 20
#: From issue to the release of the read scoreboard.
READ = 10
#: A taken branch, one to a place from a register, and a barrier after the last warp has arrived.
BRANCH, INDIRECT, BARRIER = 12, 24, 20


def latency_of(mnemonic: str) -> int:
    """Cycles until the result of an instruction of variable latency."""
    name, *kinds = mnemonic.split(".")
    return LATENCIES.get(name, OTHER) + sum(WIDE.get(kind, 0) for kind in kinds)
