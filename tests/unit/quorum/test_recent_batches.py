from __future__ import annotations

from crabka.quorum.recent_batches import MAX_KEPT, BatchPlace, RecentBatches


def filled(count: int) -> RecentBatches:
    """Batches of two offsets each."""
    recent = RecentBatches()
    for number in range(count):
        recent.add(BatchPlace(2 * number, 0, 10 * number))
    return recent


def test_an_offset_is_found_in_the_batch_that_holds_it() -> None:
    recent = filled(5)
    assert recent.find(4) == recent.find(5) == BatchPlace(4, 0, 20)
    assert recent.find(-1) is None
    assert RecentBatches().find(3) is None


def test_what_was_cut_is_forgotten() -> None:
    recent = filled(5)
    recent.truncate(6)
    assert recent.find(9) == BatchPlace(4, 0, 20)
    recent.truncate(0)
    assert recent.find(9) is None


def test_only_the_last_ones_are_kept() -> None:
    recent = filled(2 * MAX_KEPT)
    assert recent.find(0) is None
    assert recent.find(2 * MAX_KEPT) == BatchPlace(2 * MAX_KEPT, 0, 10 * MAX_KEPT)
