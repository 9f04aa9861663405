from __future__ import annotations

import struct
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from crabka.errors import CorruptDataError
from crabka.records.header import iter_headers
from crabka.remote.segments import IndexType
from crabka.spark.errors import TierReadError
from crabka.spark.plan.catalog.segment_objects import SegmentObjects, in_parallel
from tests.support.tiers.planted import FIRST_TIMESTAMP_MS, batches, two_segments
from tests.support.tiers.stores import store_of


def test_objects_of_a_segment_are_read() -> None:
    tier = two_segments()
    objects = SegmentObjects(store_of(tier))
    first, second = tier.segments
    assert objects.epochs(second) == ((0, 0), (2, 45))
    assert objects.offset_index(first).entries()[0][0] == 9
    assert objects.offset_after(first, (FIRST_TIMESTAMP_MS + 25) * 1000) > 0
    assert objects.first_open_transaction(first) is None
    assert objects.aborted(first) == []
    positions = [position for position, _ in iter_headers(batches(0, 6))]
    assert [objects.base_offset_at(first, position) for position in positions] == [0, 5, 10, 15, 20, 25]
    assert objects.first_batch(second).base_offset == 30


def test_what_is_missing_is_named() -> None:
    tier = two_segments()
    objects = SegmentObjects(store_of(tier))
    segment = tier.segments[0]
    tier.remove(segment, IndexType.OFFSET)
    with pytest.raises(TierReadError, match=r"\.index is not in memory"):
        objects.offset_index(segment)
    tier.remove(segment, None)
    with pytest.raises(TierReadError, match=r"\.log is not in memory"):
        objects.base_offset_at(segment, 0)


def test_a_segment_without_a_batch_is_reported() -> None:
    tier = two_segments()
    tier.put(tier.segments[0], None, b"short")
    with pytest.raises(TierReadError, match=r"\.log in memory has 5 bytes, which is no batch"):
        SegmentObjects(store_of(tier)).first_batch(tier.segments[0])


def test_damaged_epochs_are_reported() -> None:
    tier = two_segments()
    tier.put(tier.segments[0], IndexType.LEADER_EPOCH, b"nonsense")
    with pytest.raises(TierReadError, match="is damaged"):
        SegmentObjects(store_of(tier)).epochs(tier.segments[0])


def test_indexes_end_where_their_segment_does() -> None:
    tier = two_segments()
    segment = tier.segments[0]
    objects = SegmentObjects(store_of(tier))
    tier.put(segment, IndexType.OFFSET, struct.pack(">II", 9, segment.segment_size_bytes))
    with pytest.raises(CorruptDataError, match=r"\.index: its last entry lies after the end of the segment"):
        objects.offset_index(segment)
    tier.put(segment, IndexType.OFFSET, struct.pack(">II", 30, 500))
    with pytest.raises(CorruptDataError, match=r"\.index: its last entry lies after the end of the segment"):
        objects.offset_index(segment)
    tier.put(segment, IndexType.TIMESTAMP, struct.pack(">qI", 5, 1 << 20))
    with pytest.raises(CorruptDataError, match=r"\.timeindex: it has an offset after the end of the segment"):
        objects.offset_after(segment, 1 << 50)


def test_many_are_asked_at_once_and_answered_in_order() -> None:
    objects = SegmentObjects(store_of(two_segments()))
    assert objects.for_all(range(100), lambda number: number * 2) == [number * 2 for number in range(100)]
    assert objects.for_all([], lambda number: number) == []


def test_many_things_are_few_jobs_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A future for each of 20,000 small reads costs more than the reads."""
    jobs: list[object] = []
    submit = ThreadPoolExecutor.submit

    def counted(pool: ThreadPoolExecutor, job: Callable[[], None]) -> Future[None]:
        jobs.append(job)
        return submit(pool, job)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", counted)
    assert in_parallel(range(2_000), lambda number: -number) == [-number for number in range(2_000)]
    assert len(jobs) <= 32


def test_the_first_error_is_raised_and_ends_the_rest() -> None:
    asked: list[int] = []

    def ask(number: int) -> int:
        asked.append(number)
        if number in (40, 41):
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="40"):
        in_parallel(range(100_000), ask)
    assert set(range(41)) <= set(asked)
    assert len(asked) < 100_000
