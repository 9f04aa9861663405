from __future__ import annotations

from crabka.quorum.log.recent_batches import MAX_BYTES, RecentBatch, RecentBatches


def filled(count: int, data: bytes = b"x") -> RecentBatches:
    """Batches of two offsets each."""
    recent = RecentBatches()
    for number in range(count):
        recent.add(RecentBatch(2 * number, number // 3, 10 * number, data))
    return recent


def test_an_offset_is_found_in_the_batch_that_holds_it() -> None:
    recent = filled(5)
    assert recent.find(4) == recent.find(5) == RecentBatch(4, 0, 20, b"x")
    assert recent.find(-1) is None
    assert RecentBatches().find(3) is None
    assert [batch.offset for batch in recent.of_segment(1)] == [6, 8]


def test_what_was_cut_is_forgotten() -> None:
    recent = filled(5)
    recent.truncate(6)
    assert recent.find(9) == RecentBatch(4, 0, 20, b"x")
    recent.truncate(0)
    assert recent.find(9) is None


def test_only_the_last_ones_are_kept() -> None:
    size = MAX_BYTES // 10
    recent = filled(20, bytes(size))
    assert recent.find(2 * 9) is not None
    recent = filled(21, bytes(size))
    assert recent.find(2 * 10) is None
    assert recent.find(2 * 11) is not None


def test_a_batch_that_is_larger_than_all_that_is_kept_is_kept_alone() -> None:
    recent = filled(3, bytes(2 * MAX_BYTES))
    assert recent.find(3) is None
    assert recent.find(4) is not None
