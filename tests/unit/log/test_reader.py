from __future__ import annotations

import pytest

from crabka.config.topic import TopicConfig
from crabka.log.reader import ReadSlice, empty_slice, plan_in_segment
from crabka.log.segment import Segment
from crabka.records.header import iter_headers
from tests.support.logs import LOG_PATH, NOW_MS, make_batch, make_context

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


def test_nothing_is_read_behind_the_upper_offset_for_the_sake_of_one_batch() -> None:
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
