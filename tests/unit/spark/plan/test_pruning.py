"""How parts are cut; tests of the planner show what conditions leave of a plan."""

from __future__ import annotations

import pytest

from crabka.spark.plan.lineage import TierPart
from crabka.spark.plan.pruning import clip
from tests.support.planted_tier import two_segments


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(0, 99, (0, 30)), (5, 99, (5, 30)), (0, 7, (0, 7)), (5, 7, (5, 7))]
)
def test_a_part_is_cut_to_offsets(start: int, end: int, expected: tuple[int, int]) -> None:
    part = TierPart(two_segments().segments[0], 0, 30)
    cut = clip(part, start, end)
    assert (cut.start, cut.end) == expected
    assert cut.segment is part.segment
