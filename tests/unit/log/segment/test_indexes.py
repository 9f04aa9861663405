from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.log.segment.indexes import (
    IndexBuilder,
    SegmentIndexes,
    are_index_files_whole,
    load_index_files,
    read_index_files,
    write_end,
    write_index_files,
)
from crabka.ports import FileSystem
from crabka.records.header import parse_header
from crabka.vfs import read_file
from tests.support.storage.small import LOG_PATH, NOW_MS, make_batch, make_context

BASE = 100
STEM = f"{LOG_PATH}/{BASE:020d}"
BATCH_BYTES = len(make_batch(value_bytes=100))


@pytest.fixture
def fs() -> FileSystem:
    found = make_context().fs
    found.makedirs(LOG_PATH)
    return found


def built(count: int) -> SegmentIndexes:
    """The indexes of so many batches, every second of which has an entry."""
    builder = IndexBuilder(BASE, BATCH_BYTES)
    for number in range(count):
        batch = make_batch(value_bytes=100, timestamp=NOW_MS + number, base_offset=BASE + number)
        builder.add(number * BATCH_BYTES, parse_header(batch))
    return builder.finish()


def test_entries_are_those_of_appending_and_the_largest_timestamp() -> None:
    indexes = built(6)
    assert indexes.offsets.entries() == [(BASE + 2, 2 * BATCH_BYTES), (BASE + 4, 4 * BATCH_BYTES)]
    assert indexes.times.entries() == [(NOW_MS + 2, BASE + 2), (NOW_MS + 4, BASE + 4), (NOW_MS + 5, BASE + 5)]


def test_files_hold_what_was_written(fs: FileSystem) -> None:
    indexes = built(6)
    assert not are_index_files_whole(fs, STEM, indexes)
    assert write_index_files(fs, STEM, indexes) == (2, 3)
    assert are_index_files_whole(fs, STEM, indexes)
    found = read_index_files(fs, STEM, BASE, 6 * BATCH_BYTES)
    assert found is not None
    assert (found.offsets.entries(), found.times.entries()) == (indexes.offsets.entries(), indexes.times.entries())


def test_only_what_is_missing_is_written(fs: FileSystem) -> None:
    done = write_index_files(fs, STEM, built(6))
    write_end(fs, f"{STEM}.index", b"\xff" * 16, 0)  # would be mended by writing all
    assert write_index_files(fs, STEM, built(8), done) == (3, 4)
    assert read_file(fs, f"{STEM}.index")[:16] == b"\xff" * 16
    assert len(read_file(fs, f"{STEM}.index")) == 3 * 8
    assert not are_index_files_whole(fs, STEM, built(6))


@pytest.mark.parametrize("damage", ["missing", "torn", "beyond the segment", "no time"])
def test_files_that_cannot_be_right_are_nothing(fs: FileSystem, damage: str) -> None:
    write_index_files(fs, STEM, built(6))
    size = 6 * BATCH_BYTES
    if damage == "missing":
        fs.unlink(f"{STEM}.timeindex")
    elif damage == "torn":
        write_end(fs, f"{STEM}.index", b"abc", 0)
    elif damage == "no time":
        write_end(fs, f"{STEM}.timeindex", b"", 0)
    else:
        size = 4 * BATCH_BYTES
    assert read_index_files(fs, STEM, BASE, size) is None
    if damage == "no time":
        # No batch may have had a timestamp.
        assert load_index_files(fs, STEM, BASE, size) is None
        return
    with pytest.raises((FileNotFoundError, CorruptDataError)):
        load_index_files(fs, STEM, BASE, size)


def test_a_full_index_keeps_room_for_the_timestamp_of_the_roll() -> None:
    indexes = built(6)  # 2 offsets, 3 times
    assert not indexes.is_full(5 * 12)
    assert indexes.is_full(4 * 12)
    assert indexes.is_full(2 * 8)
    assert not SegmentIndexes.empty(BASE).is_full(2 * 12)


def test_a_file_ends_after_what_is_written(fs: FileSystem) -> None:
    write_end(fs, STEM, b"abcdef", 0)
    write_end(fs, STEM, b"X", 2)
    assert read_file(fs, STEM) == b"abX"
    write_end(fs, STEM, b"", 1)
    assert read_file(fs, STEM) == b"a"
