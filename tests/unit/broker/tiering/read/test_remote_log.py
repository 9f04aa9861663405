"""Which segments hold which offsets: by epochs, and only as far as the histories are the same."""

from __future__ import annotations

from crabka.broker.tiering.read.remote_log import RemoteLog
from crabka.testing.remote_samples import sample_segment
from tests.support.storage.remote_log import remote_log


def found(log: RemoteLog, offset: int) -> tuple[int, int] | None:
    place = log.place_of(offset)
    return None if place is None else (place.segment.segment_id.id.int, place.end_offset)


def test_an_offset_is_found_by_its_epoch() -> None:
    log = remote_log([(0, 0), (2, 120)], sample_segment(1, (0, 99)), sample_segment(2, (100, 199), {0: 100, 2: 120}))
    assert found(log, 0) == (1, 100)
    assert found(log, 99) == (1, 100)
    assert found(log, 119) == (2, 200)
    assert found(log, 120) == (2, 200)
    assert found(log, 200) is None


def test_offsets_before_all_epochs_are_in_no_segment() -> None:
    assert found(remote_log([(1, 50)], sample_segment(1, (0, 99), {1: 0})), 49) is None


def test_a_segment_is_read_only_to_where_its_history_parts_from_the_log() -> None:
    cut_off = sample_segment(1, (0, 99), {0: 0, 1: 50})
    log = remote_log([(0, 0), (2, 50)], cut_off, sample_segment(2, (50, 99), {2: 50}))
    assert found(log, 10) == (1, 50)
    assert found(log, 50) == (2, 100)


def test_an_epoch_that_the_segment_does_not_know_ends_it_too() -> None:
    # The old leader went on in epoch 0 to 99, the log has epoch 2 from 70 on.
    log = remote_log([(0, 0), (2, 70)], sample_segment(1, (0, 99)), sample_segment(2, (60, 99), {0: 60, 2: 70}))
    assert found(log, 10) == (1, 70)
    assert found(log, 75) == (2, 100)


def test_epochs_that_only_the_log_has_below_the_segment_do_not_matter() -> None:
    assert found(remote_log([(0, 0), (1, 10), (3, 40)], sample_segment(1, (40, 99), {3: 40})), 41) == (1, 100)


def test_segments_are_listed_once_in_the_order_of_epochs() -> None:
    first, second = sample_segment(1, (0, 99)), sample_segment(2, (100, 199), {0: 100, 2: 120})
    third, half = sample_segment(3, (200, 299), {2: 200}), sample_segment(4, (300, 399), {2: 300})
    log = remote_log([(0, 0), (2, 120)], first, second, third, half, unfinished=1)
    assert [segment.start_offset for segment in log.finished_segments(0)] == [0, 100, 200]
    assert [segment.start_offset for segment in log.finished_segments(130)] == [100, 200]


def test_the_next_transaction_index_may_be_in_a_later_epoch() -> None:
    log = remote_log(
        [(0, 0), (1, 100), (2, 200)],
        sample_segment(1, (0, 99)),
        sample_segment(2, (100, 199), {1: 100}),
        sample_segment(3, (200, 299), {2: 200}, with_txn_index=True),
    )
    segment = log.next_with_txn_index(5)
    assert segment is not None
    assert segment.start_offset == 200
    assert log.next_with_txn_index(300) is None
    assert remote_log([(1, 50)]).next_with_txn_index(5) is None
