from __future__ import annotations

from crabka.spark.decode.places import ANYWHERE, BatchBounds, Origin, RowRange
from tests.support.pickling import sent


def test_bounds_are_wide_by_default() -> None:
    assert BatchBounds() == ANYWHERE
    assert ANYWHERE.start_offset == 0
    assert ANYWHERE.end_offset > (1 << 63) - 2  # the largest last offset that a batch can have


def test_places_travel_with_errors() -> None:
    for place in (RowRange(3, 9), BatchBounds(3, 9), Origin("t", 0, "o", 5)):
        assert sent(place) == place
