"""The offset and the time index of a segment as a pair: what their files hold, and how they follow from the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from crabka.formats.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from crabka.formats.time_index import TimeIndex, TimeIndexEntry
from crabka.records.header import NO_TIMESTAMP, BatchHeader
from crabka.vfs import read_file

if TYPE_CHECKING:
    from crabka.ports import FileSystem


class SegmentIndexes(NamedTuple):
    """The two sparse indexes of a segment."""

    offsets: OffsetIndex
    times: TimeIndex

    @classmethod
    def empty(cls, base_offset: int) -> SegmentIndexes:
        """Return indexes without entries."""
        return cls(OffsetIndex(base_offset), TimeIndex(base_offset))

    def is_full(self, max_bytes: int) -> bool:
        """Return whether one has no room for another entry; the time index keeps one for the roll's timestamp."""
        return (
            len(self.offsets) >= max_bytes // OFFSET_ENTRY_SIZE or len(self.times) >= max_bytes // TIME_ENTRY_SIZE - 1
        )


class IndexBuilder:
    """Builds the indexes of a segment from its batches, with the entries that appending would have made."""

    __slots__ = ("_bytes_since_entry", "_indexes", "_interval_bytes", "_largest")

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._indexes = SegmentIndexes.empty(base_offset)
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0
        self._largest = TimeIndexEntry(NO_TIMESTAMP, base_offset)

    def add(self, position: int, header: BatchHeader) -> None:
        """Take in the next batch."""
        last_offset = header.last_offset
        if header.max_timestamp > self._largest.timestamp:
            self._largest = TimeIndexEntry(header.max_timestamp, last_offset)
        if self._bytes_since_entry > self._interval_bytes:
            self._indexes.offsets.append(last_offset, position)
            self._indexes.times.maybe_append(*self._largest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size_in_bytes

    def finish(self) -> SegmentIndexes:
        """Return the indexes, with the largest timestamp as last time entry."""
        self._indexes.times.maybe_append(*self._largest)
        return self._indexes


def read_index_files(fs: FileSystem, stem: str, base_offset: int, segment_size: int) -> SegmentIndexes | None:
    """Return what the files of a sealed or closed segment hold, None if one is missing or cannot be right."""
    try:
        return load_index_files(fs, stem, base_offset, segment_size)
    except (FileNotFoundError, CorruptDataError):
        return None


def load_index_files(fs: FileSystem, stem: str, base_offset: int, segment_size: int) -> SegmentIndexes | None:
    """Like `read_index_files`, None only if there is no time entry, as where no batch has a timestamp.

    Raises FileNotFoundError if a file is missing, CorruptDataError if it cannot be right.
    """
    offset_path, time_path = stem + INDEX_SUFFIX, stem + TIME_INDEX_SUFFIX
    offsets = OffsetIndex.decode(base_offset, read_file(fs, offset_path), offset_path)
    times = TimeIndex.decode(base_offset, read_file(fs, time_path), time_path)
    if offsets.last_position >= segment_size:
        at = offsets.last_position
        raise CorruptDataError(offset_path, f"position {at} is beyond the segment of {segment_size} bytes")
    return SegmentIndexes(offsets, times) if len(times) else None


def write_index_files(
    fs: FileSystem, stem: str, indexes: SegmentIndexes, done: tuple[int, int] = (0, 0)
) -> tuple[int, int]:
    """Write the entries that the files lack, which have so many already; return how many they have then."""
    write_end(fs, stem + INDEX_SUFFIX, indexes.offsets.encode(done[0]), done[0] * OFFSET_ENTRY_SIZE)
    write_end(fs, stem + TIME_INDEX_SUFFIX, indexes.times.encode(done[1]), done[1] * TIME_ENTRY_SIZE)
    return len(indexes.offsets), len(indexes.times)


def are_index_files_whole(fs: FileSystem, stem: str, indexes: SegmentIndexes) -> bool:
    """Return whether the files have the size of all entries, and nothing else."""
    sizes = {
        stem + INDEX_SUFFIX: len(indexes.offsets) * OFFSET_ENTRY_SIZE,
        stem + TIME_INDEX_SUFFIX: len(indexes.times) * TIME_ENTRY_SIZE,
    }
    return all(fs.exists(path) and fs.stat(path).size_bytes == size for path, size in sizes.items())


def write_end(fs: FileSystem, path: str, data: bytes, position: int) -> None:
    """Write `data` at `position` and end the file there."""
    file = fs.open(path, create=True)
    try:
        if data:
            file.pwritev([data], position)
        if file.size() != position + len(data):
            file.truncate(position + len(data))
    finally:
        file.close()
