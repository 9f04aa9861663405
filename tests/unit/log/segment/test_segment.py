from __future__ import annotations

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import CorruptDataError
from crabka.formats.time_index import TimeIndexEntry
from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.segment import NEVER, Segment
from crabka.records.header import parse_header
from crabka.vfs import read_file
from tests.support.storage.small import LOG_PATH, NOW_MS, make_batch, make_context

CONFIG = TopicConfig(index_interval_bytes=200)
BASE = 100


def new_segment(context: SegmentContext | None = None, config: TopicConfig = CONFIG) -> Segment:
    context = context or make_context()
    context.fs.makedirs(LOG_PATH)
    segment = Segment(context, LOG_PATH, BASE, 0)
    segment.activate(segment.empty_indexes(), config, NOW_MS)
    return segment


def fill(segment: Segment, count: int, *, first: int = 0, value_bytes: int = 100) -> None:
    """Append batches of one record whose timestamps rise by 10."""
    for index in range(first, first + count):
        offset = BASE + index
        batch = make_batch(value_bytes=value_bytes, timestamp=NOW_MS + 10 * index, base_offset=offset)
        segment.append([batch], len(batch), offset, parse_header(batch).max_timestamp)


def reopened(segment: Segment, context: SegmentContext) -> Segment:
    return Segment(context, LOG_PATH, BASE, segment.size)


def test_an_entry_is_added_before_the_batch_that_comes_after_the_interval() -> None:
    segment = new_segment()
    fill(segment, 6)
    size = segment.size // 6
    # 200 bytes are passed by two batches: the third is indexed, with its own last offset and position.
    assert segment.indexes().offsets.entries() == [(BASE + 2, 2 * size), (BASE + 4, 4 * size)]
    assert segment.indexes().times.entries() == [
        TimeIndexEntry(NOW_MS + 20, BASE + 2),
        TimeIndexEntry(NOW_MS + 40, BASE + 4),
    ]


def test_sealing_writes_trimmed_indexes_with_the_largest_timestamp() -> None:
    context = make_context()
    segment = new_segment(context)
    fill(segment, 6)
    segment.seal()
    assert len(read_file(context.fs, segment.stem + ".index")) == 2 * 8
    assert len(read_file(context.fs, segment.stem + ".timeindex")) == 3 * 12
    fresh = reopened(segment, make_context(context.fs))
    assert fresh.read_max_timestamp() == TimeIndexEntry(NOW_MS + 50, BASE + 5)
    assert fresh.indexes().offsets.entries() == segment.indexes().offsets.entries()
    with pytest.raises(CorruptDataError, match="sealed"):
        segment.append([b""], 0, 0, 0)


@pytest.mark.parametrize("damage", ["missing", "odd size", "beyond the file", "empty time index"])
def test_damaged_indexes_are_rebuilt(damage: str) -> None:
    context = make_context()
    segment = new_segment(context)
    fill(segment, 6)
    segment.seal()
    wanted = segment.indexes().offsets.entries()
    path = segment.stem + (".timeindex" if "time" in damage else ".index")
    if damage == "missing":
        context.fs.unlink(path)
    elif damage == "beyond the file":
        context.fs.open(path).pwritev([bytes.fromhex("000000ff00ffffff")], 8)
    else:
        context.fs.open(path).truncate(0 if "empty" in damage else 9)
    fresh = reopened(segment, make_context(context.fs))
    fresh.index_interval_bytes = CONFIG.index_interval_bytes
    assert fresh.indexes().offsets.entries() == wanted
    assert fresh.read_max_timestamp().timestamp == NOW_MS + 50


def test_batches_are_found_by_offset() -> None:
    segment = new_segment()
    fill(segment, 6)
    found = segment.position_of(BASE + 3)
    assert found is not None
    assert found[1].base_offset == BASE + 3
    assert segment.position_of(BASE + 6) is None
    assert parse_header(segment.read_batch(*found)) == found[1]


def test_a_sealed_segment_knows_how_far_it_reaches() -> None:
    segment = new_segment()
    fill(segment, 6)
    segment.seal()
    assert segment.last_offset() == BASE + 5
    assert segment.reaches(BASE + 5)
    assert not segment.reaches(BASE + 6)
    empty = new_segment()
    empty.seal()
    assert empty.last_offset() == BASE - 1
    assert not empty.reaches(BASE)


def test_truncating_cuts_batches_indexes_and_aborted_transactions() -> None:
    context = make_context()
    segment = new_segment(context)
    fill(segment, 6)
    segment.aborts.append(AbortedTransaction(1, BASE, BASE + 2, BASE + 3))
    segment.aborts.append(AbortedTransaction(1, BASE + 3, BASE + 5, BASE + 6))
    size = segment.size // 6
    assert segment.truncate(BASE + 4) == BASE + 4
    assert segment.size == 4 * size == context.fs.stat(segment.log_path).size_bytes
    assert segment.indexes().offsets.entries() == [(BASE + 2, 2 * size)]
    assert segment.read_max_timestamp() == TimeIndexEntry(NOW_MS + 30, BASE + 3)
    assert [entry.last_offset for entry in segment.aborted()] == [BASE + 2]
    segment.truncate(BASE)
    assert segment.size == 0
    assert segment.roll_timestamp == NEVER
    assert not context.fs.exists(segment.stem + ".txnindex")


def test_truncating_inside_a_batch_takes_the_whole_batch() -> None:
    segment = new_segment()
    batch = make_batch(5, base_offset=BASE)
    segment.append([batch], len(batch), BASE + 4, NOW_MS)
    assert segment.truncate(BASE + 3) == BASE


def test_a_full_index_is_reported() -> None:
    segment = new_segment(config=TopicConfig(index_interval_bytes=1, segment_index_bytes=3 * 12))
    fill(segment, 2)
    assert not segment.full
    fill(segment, 1, first=2)
    assert segment.full


def test_the_roll_waits_from_the_first_timestamp_less_jitter() -> None:
    segment = new_segment(config=TopicConfig(segment_ms=1000, segment_jitter_ms=400))
    assert segment.roll_timestamp == segment.roll_at_ms == NEVER
    fill(segment, 2)
    assert NOW_MS + 600 < segment.roll_timestamp <= NOW_MS + 1000
    assert segment.roll_at_ms == NEVER


def test_without_timestamps_the_roll_goes_by_the_clock() -> None:
    segment = new_segment(config=TopicConfig(segment_ms=1000))
    batch = make_batch(base_offset=BASE)
    segment.append([batch], len(batch), BASE, -1)
    assert (segment.roll_timestamp, segment.roll_at_ms) == (NEVER, NOW_MS + 1000)


def test_retention_goes_by_the_file_time_where_no_batch_has_a_timestamp() -> None:
    context = make_context()
    segment = new_segment(context)
    assert segment.largest_timestamp() == context.fs.stat(segment.log_path).modified_ms
    fill(segment, 1)
    assert segment.largest_timestamp() == NOW_MS


def test_deleted_segments_are_renamed_and_scheduled() -> None:
    scheduled: list[tuple[str, int]] = []
    context = make_context()
    context.schedule_deletion = lambda path, due_ms: scheduled.append((path, due_ms))
    segment = new_segment(context)
    fill(segment, 3)
    segment.seal()
    segment.delete_later(777)
    assert context.fs.listdir(LOG_PATH) == [f"{BASE:020d}.{name}.deleted" for name in ("index", "log", "timeindex")]
    assert {due for _, due in scheduled} == {777}
    assert len(scheduled) == 3


def test_a_failed_write_leaves_the_segment_as_it_was() -> None:
    context = make_context()
    segment = new_segment(context)
    fill(segment, 1)
    context.fs.capacity_bytes = 0  # type: ignore[attr-defined]
    size = segment.size
    with pytest.raises(OSError, match="space"):
        fill(segment, 1)
    assert segment.size == size


def test_the_index_files_of_a_sealed_segment_hold_what_its_indexes_do() -> None:
    context = make_context()
    segment = new_segment(context)
    fill(segment, 20)
    segment.seal()
    stem = segment.stem
    wanted = read_file(context.fs, stem + ".index"), read_file(context.fs, stem + ".timeindex")
    for damage in (b"", wanted[1] + bytes(12)):
        file = context.fs.open(stem + ".timeindex")
        file.truncate(0)
        file.pwritev([damage], 0)
        file.close()
        context.fs.unlink(stem + ".index")
        segment.ensure_index_files()
        assert (read_file(context.fs, stem + ".index"), read_file(context.fs, stem + ".timeindex")) == wanted
