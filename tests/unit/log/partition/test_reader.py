from __future__ import annotations

import pytest

from crabka.config.topic import TopicConfig
from crabka.log.partition.reader import MIN_RANGE_BYTES, ReadSlice, empty_slice, plan_in_segment
from crabka.log.segment.segment import Segment
from crabka.ports import FileRange
from crabka.records.header import iter_headers
from tests.support.storage.small import LOG_PATH, NOW_MS, make_batch, make_context

BATCH = len(make_batch(2, value_bytes=50))


def segment_with(count: int) -> Segment:
    """Return a segment of batches with two records each, indexed every 200 bytes."""
    context = make_context()
    context.fs.makedirs(LOG_PATH)
    segment = Segment(context, LOG_PATH, 0, 0)
    segment.activate(segment.empty_indexes(), TopicConfig(index_interval_bytes=200), NOW_MS)
    for index in range(count):
        batch = make_batch(2, value_bytes=50, base_offset=2 * index)
        segment.append([batch], len(batch), 2 * index + 1, NOW_MS)
    return segment


def plan(start: int, *, max_bytes: int = 1 << 20, upper: int | None = None, min_one: bool = True) -> ReadSlice:
    return plan_in_segment(segment_with(10), start, max_bytes=max_bytes, upper_offset=upper, min_one_batch=min_one)


def bases(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_headers(data)]


@pytest.mark.parametrize("start", range(20))
def test_a_read_begins_with_the_batch_that_holds_the_offset(start: int) -> None:
    data = plan(start).read()
    assert bases(data) == list(range(start - start % 2, 20, 2))


@pytest.mark.parametrize("upper", [2, 4, 10, 18])
def test_a_read_ends_before_the_upper_offset(upper: int) -> None:
    assert bases(plan(0, upper=upper).read()) == list(range(0, upper, 2))


def test_max_bytes_may_cut_the_last_batch() -> None:
    data = plan(0, max_bytes=BATCH + 10).read()
    assert len(data) == BATCH + 10
    assert bases(data) == [0]


@pytest.mark.parametrize("max_bytes", [0, 1, 11, 12, BATCH - 1])
def test_at_least_one_batch_comes_even_over_the_limit(max_bytes: int) -> None:
    assert len(plan(6, max_bytes=max_bytes).read()) == BATCH
    assert plan(6, max_bytes=max_bytes, min_one=False).read() == b""


def test_nothing_is_read_after_the_upper_offset_for_the_sake_of_one_batch() -> None:
    assert plan(6, max_bytes=1, upper=6).read() == b""


def test_an_empty_plan_reads_nothing() -> None:
    empty = empty_slice(5)
    assert (empty.read(), empty.read_nowait(), empty.length, empty.file) == (b"", b"", 0, None)


class ColdFile:
    """A file whose bytes are not in memory."""

    path = "/cold"

    def __init__(self, segment: Segment) -> None:
        self._file = segment.handle().file
        self.reads = 0

    def pread(self, length: int, position: int) -> bytes:
        self.reads += 1
        return self._file.pread(length, position)

    def pread_nowait(self, length: int, position: int) -> bytes | None:
        return None

    def in_memory(self, length: int, position: int) -> bool:
        return False

    def close(self) -> None:
        self._file.close()


def test_a_cold_read_is_left_to_a_thread() -> None:
    segment = segment_with(10)
    cold = ColdFile(segment)
    slice_ = plan_in_segment(segment, 7, max_bytes=1 << 20, upper_offset=None, min_one_batch=True)
    slice_._handle.file = cold  # type: ignore[union-attr]
    assert slice_.read_nowait() is None
    assert cold.reads == 0
    assert bases(slice_.read()) == list(range(6, 20, 2))


def test_a_plan_outlives_its_segment() -> None:
    segment = segment_with(10)
    slice_ = plan_in_segment(segment, 0, max_bytes=1 << 20, upper_offset=None, min_one_batch=True)
    segment.seal()
    segment.delete_later(0)
    assert len(bases(slice_.read())) == 10


LARGE = len(make_batch(1, value_bytes=30_000))


def large_segment(count: int = 20) -> Segment:
    """Return a segment of batches with one record of 30,000 bytes each."""
    context = make_context()
    context.fs.makedirs(LOG_PATH)
    segment = Segment(context, LOG_PATH, 0, 0)
    segment.activate(segment.empty_indexes(), TopicConfig(), NOW_MS)
    for index in range(count):
        segment.append([make_batch(1, value_bytes=30_000, base_offset=index)], LARGE, index, NOW_MS)
    return segment


def large_plan(start: int, *, max_bytes: int = 1 << 20, upper: int | None = None) -> ReadSlice:
    return plan_in_segment(large_segment(), start, max_bytes=max_bytes, upper_offset=upper, min_one_batch=True)


@pytest.mark.parametrize("start", [0, 1, 7, 17])
def test_many_bytes_are_taken_as_a_range_that_reads_the_same(start: int) -> None:
    taken = large_plan(start).take_nowait()
    assert isinstance(taken, FileRange)
    assert taken.read() == large_plan(start).read()


def test_few_bytes_are_taken_as_bytes() -> None:
    assert isinstance(large_plan(18).take_nowait(), bytes)
    assert isinstance(large_plan(0, max_bytes=MIN_RANGE_BYTES - 1).take_nowait(), bytes)
    assert empty_slice(5).take_nowait() == b""


@pytest.mark.parametrize("extra", [0, 1, 11, 12, 61, LARGE - 1])
def test_a_range_leaves_out_a_batch_that_the_limit_cuts(extra: int) -> None:
    taken = large_plan(2, max_bytes=5 * LARGE + extra).take_nowait()
    assert isinstance(taken, FileRange)
    assert len(taken) == 5 * LARGE
    assert bases(taken.read()) == [2, 3, 4, 5, 6]


def test_a_batch_over_the_limit_is_taken_as_bytes() -> None:
    segment = segment_with(1)
    batch = make_batch(1, value_bytes=200_000, base_offset=2)
    segment.append([batch], len(batch), 2, NOW_MS)
    slice_ = plan_in_segment(segment, 2, max_bytes=100_000, upper_offset=None, min_one_batch=True)
    assert slice_.take_nowait() == batch


@pytest.mark.parametrize("max_bytes", [3 * LARGE, 6 * LARGE + 5, 1 << 20])
@pytest.mark.parametrize("upper", [1, 3, 4, 5, 9, 19])
def test_what_is_taken_ends_before_the_upper_offset(upper: int, max_bytes: int) -> None:
    taken = large_plan(0, max_bytes=max_bytes, upper=upper).take_nowait()
    assert taken is not None
    data = taken.read() if isinstance(taken, FileRange) else bytes(taken)
    assert bases(data) == list(range(min(upper, max_bytes // LARGE)))


def test_far_below_the_upper_offset_batches_need_not_be_looked_at() -> None:
    assert isinstance(large_plan(0, max_bytes=4 * LARGE, upper=18).take_nowait(), FileRange)


def test_a_wrong_index_entry_inside_the_first_batch_does_not_cut_it() -> None:
    segment = large_segment(1)
    batch = make_batch(1, value_bytes=100_000, base_offset=1)
    segment.append([batch], len(batch), 1, NOW_MS)
    segment.append([make_batch(1, value_bytes=30_000, base_offset=2)], LARGE, 2, NOW_MS)
    segment.append([make_batch(1, value_bytes=30_000, base_offset=3)], LARGE, 3, NOW_MS)
    index = segment.indexes().offsets
    index._positions[-1] = LARGE + 50_000
    del index._positions[1:-1], index._offsets[1:-1]
    slice_ = plan_in_segment(segment, 1, max_bytes=len(batch) + 10, upper_offset=None, min_one_batch=True)
    taken = slice_.take_nowait()
    assert isinstance(taken, FileRange)
    assert taken.read()[: len(batch)] == batch


def test_bytes_that_are_not_in_memory_are_not_taken() -> None:
    segment = large_segment()
    slice_ = plan_in_segment(segment, 0, max_bytes=1 << 20, upper_offset=None, min_one_batch=True)
    cold = ColdFile(segment)
    slice_._handle.file = cold  # type: ignore[union-attr]
    assert slice_.take_nowait() is None
    assert cold.reads == 0


def test_a_range_outlives_its_segment() -> None:
    segment = large_segment()
    taken = plan_in_segment(segment, 0, max_bytes=1 << 20, upper_offset=None, min_one_batch=True).take_nowait()
    segment.seal()
    segment.delete_later(0)
    assert isinstance(taken, FileRange)
    assert len(bases(taken.read())) == 20
