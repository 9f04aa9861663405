from __future__ import annotations

import pytest

from crabka.spark.plan.ranges import TierRange
from crabka.spark.read.read_ahead import RangeReadAhead
from crabka.spark.tier_store import ObjectMissingError
from tests.support.tier_stores import MemoryTierStore


def tier_range(name: str, start: int, end: int) -> TierRange:
    return TierRange("t", "id", 0, 0, 1, name, start, end)


STORE = {"a": bytes(range(100)), "b": bytes(range(50)), "c": b"xyz"}


def test_ranges_come_in_pieces_and_in_order() -> None:
    ranges = [tier_range("a", 10, 95), tier_range("b", 0, 50), tier_range("c", 1, 3)]
    with RangeReadAhead(MemoryTierStore(STORE), ranges, piece_bytes=20) as ahead:
        pieces = [[bytes(piece) for piece in ahead.pieces(number)] for number in range(3)]
    assert [b"".join(each) for each in pieces] == [bytes(range(10, 95)), bytes(range(50)), b"yz"]
    assert [len(piece) for piece in pieces[0]] == [20, 20, 20, 20, 5]


def test_little_is_fetched_ahead() -> None:
    store = MemoryTierStore(STORE)
    with RangeReadAhead(store, [tier_range("a", 0, 100)], piece_bytes=1) as ahead:
        next(ahead.pieces(0))
    assert len(store.asked) < 10


def test_a_range_that_fails_does_not_stop_the_next() -> None:
    ranges = [tier_range("gone", 0, 60), tier_range("b", 0, 50)]
    with RangeReadAhead(MemoryTierStore(STORE), ranges, piece_bytes=20) as ahead:
        with pytest.raises(ObjectMissingError):
            list(ahead.pieces(0))
        assert b"".join(map(bytes, ahead.pieces(1))) == bytes(range(50))


def test_ranges_may_be_left_before_their_end() -> None:
    ranges = [tier_range("a", 0, 100), tier_range("b", 0, 50)]
    with RangeReadAhead(MemoryTierStore(STORE), ranges, piece_bytes=10) as ahead:
        next(ahead.pieces(0))
        assert b"".join(map(bytes, ahead.pieces(1))) == bytes(range(50))
