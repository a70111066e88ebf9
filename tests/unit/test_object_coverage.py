"""Tables of objects against the sprites of the hardware, over random play."""

from __future__ import annotations

import pytest

from cule.games.objects import games_with_objects, load_objects
from roms_tools.object_coverage import measure, page_row, recorded
from tests.support.cases import long_except

pytestmark = pytest.mark.ale


@pytest.mark.parametrize("game", long_except(games_with_objects(), every=16))
def test_tables_agree_with_sprites_as_recorded(game: str) -> None:
    """Play is exact, so that the numbers are."""
    found = measure(game)
    assert found.runs == recorded(game)
    assert found.runs.keys() <= {slot.name for slot in load_objects(game).slots}
    row = page_row(game)
    assert (row[2], row[3]) == (f"{found.sprites:.2f}", f"{found.pixels:.2f}")
    assert max(found.runs.values()) > 0
