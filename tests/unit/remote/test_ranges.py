from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.remote.errors import InvalidRangeError
from crabka.remote.ranges import positions
from crabka.testing import MemoryFileSystem
from tests.support.tiers.segments import write_segment

TEN_BYTES = write_segment(MemoryFileSystem(), "/local", log=b"0123456789").metadata


@given(start=st.integers(0, 10), length=st.integers(1, 20))
def test_both_ends_are_included_and_the_end_is_cut(start: int, length: int) -> None:
    span = positions(TEN_BYTES, start, start + length - 1)
    assert b"0123456789"[span.start : span.stop] == b"0123456789"[start : start + length]
    assert len(span) == len(b"0123456789"[start : start + length])


def test_without_an_end_all_the_rest_is_meant() -> None:
    assert positions(TEN_BYTES, 3, None) == range(3, 10)


def test_a_start_at_the_end_means_nothing() -> None:
    assert not positions(TEN_BYTES, 10, None)
    assert not positions(TEN_BYTES, 10, 12)


@pytest.mark.parametrize(("start", "end"), [(11, None), (-1, None), (11, 12), (5, 4), (10, 9)])
def test_positions_that_cannot_exist_are_refused(start: int, end: int | None) -> None:
    with pytest.raises(InvalidRangeError):
        positions(TEN_BYTES, start, end)
