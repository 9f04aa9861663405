"""The segments of an open metadata log, and reads that verify every batch.

The checksum of a batch covers neither its offset nor its epoch. Offsets of this log have no gaps, and its epochs are in
memory, so both are verified as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.formats.file_names import INDEX_SUFFIX
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.quorum.log.recent_batches import RecentBatch, RecentBatches
from crabka.quorum.log.survey import StoredBatch, read_segment
from crabka.records.header import HEADER_SIZE, MAGIC_V2, BatchHeader, crc_valid, iter_headers, parse_header

if TYPE_CHECKING:
    from crabka.log.segment.context import SegmentContext
    from crabka.log.segment.segment import Segment
    from crabka.ports import Buffer


logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LogSegments:
    """The parts of an open log. Changed by `MetadataLog` alone."""

    context: SegmentContext
    directory: str
    segments: list[Segment] = field(default_factory=list)
    epochs: LeaderEpochCache = field(default_factory=LeaderEpochCache)
    end_offset: int = 0
    recent: RecentBatches = field(default_factory=RecentBatches)

    def end_of(self, segment: Segment) -> int:
        """Return the offset after the last record of a segment."""
        following = (other.base_offset for other in self.segments if other.base_offset > segment.base_offset)
        return next(following, self.end_offset)

    def starting_at(self, offset: int) -> list[Segment]:
        """Return the segment that holds an offset, and those after it."""
        first = 0
        for index, segment in enumerate(self.segments):
            if segment.base_offset <= offset:
                first = index
        return self.segments[first:]


class LogReader:
    """Reads an open metadata log. Blocks."""

    def __init__(self, files: LogSegments) -> None:
        self._files = files
        # Number of batches that were restored.
        self.restored_count = 0

    def read(self, start_offset: int) -> Iterator[StoredBatch]:
        """Yield the batches from the one that holds `start_offset` on. Raises CorruptDataError for a bad one."""
        files, expected = self._files, None
        for segment in files.starting_at(start_offset):
            for batch in read_segment(files.context.fs, segment.log_path, segment.size):
                header = batch.header
                if header.last_offset < start_offset:
                    continue
                if not crc_valid(batch.data, 0, header) or expected not in (None, header.base_offset):
                    raise CorruptDataError(segment.log_path, f"bad batch at offset {header.base_offset}")
                expected = header.next_offset
                yield batch
        if expected not in (None, files.end_offset):
            raise CorruptDataError(files.directory, f"ends at offset {expected} instead of {files.end_offset}")

    def read_slice(self, offset: int, max_bytes: int) -> bytes:
        """Return valid batches of one segment from the one that holds `offset` on: at least one, if there is any.

        Ends before a damaged batch. If the first one is damaged, it is restored from memory, or CorruptDataError is
        raised.
        """
        files = self._files
        for segment in files.starting_at(offset):
            if offset >= files.end_of(segment):
                continue
            data, fault = self._read_whole(segment, offset, max_bytes)
            if not data and self.restore(segment):
                data, fault = self._read_whole(segment, offset, max_bytes)
            if not data:
                raise CorruptDataError(segment.log_path, f"offset {offset}: {fault}")
            return data
        return b""

    def restore(self, segment: Segment) -> list[int]:
        """Restore damaged recent batches from memory, durably; return their offsets."""
        recent = self._files.recent.of_segment(segment.base_offset)
        file = self._files.context.fs.open(segment.log_path)
        try:
            wrong = [batch for batch in recent if file.pread(len(batch.data), batch.position) != batch.data]
            for batch in wrong:
                file.pwritev([batch.data], batch.position)
            if wrong:
                file.fsync()
        finally:
            file.close()
        for batch in wrong:
            text = "%s was damaged at position %d, offset %d: restored from memory"
            logger.warning(text, segment.log_path, batch.position, batch.offset)
        self.restored_count += len(wrong)
        return [batch.offset for batch in wrong]

    def _read_whole(self, segment: Segment, offset: int, max_bytes: int) -> tuple[bytes, str]:
        """Return the batches up to the first damaged one, and its fault, if any."""
        found = self._find(segment, offset)
        if found is None or found[1].base_offset > offset:
            return b"", "its batch is not at the indexed position"
        start = end = found[0]
        for position, header in segment.headers(start):
            if end > start and position + header.size_in_bytes - start > max_bytes:
                break
            end = position + header.size_in_bytes
        data = segment.handle().file.pread(end - start, start)
        size, fault = self._whole_prefix(data, found[1].base_offset)
        return data[:size], fault

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch of the record at an offset, None if the log does not hold it."""
        for segment in self._files.starting_at(offset):
            found = self._find(segment, offset)
            if found is not None:
                return found[1].partition_leader_epoch if found[1].base_offset <= offset else None
        return None

    def can_cut_at(self, end_offset: int) -> bool:
        """Return whether the batches are valid up to an offset, so that the log can be truncated there."""
        segment = self._files.starting_at(end_offset)[0]
        before, after = end_offset - 1, end_offset
        found = [segment.position_of(each) for each in (before, after) if each >= segment.base_offset]
        return end_offset >= self._files.end_offset or all(
            each is not None and each[1].base_offset <= end_offset for each in found
        )

    def _batch_at(self, segment: Segment, place: RecentBatch, offset: int) -> tuple[int, BatchHeader] | None:
        """Return a batch whose position is known, None if it is damaged or does not hold the offset."""
        data = segment.handle().file.pread(HEADER_SIZE, place.position)
        if len(data) < HEADER_SIZE:
            return None
        header = parse_header(data)
        is_right = header.base_offset == place.offset and offset <= header.last_offset
        return (place.position, header) if is_right else None

    def _whole_prefix(self, data: bytes, expected: int) -> tuple[int, str]:
        """Return how many bytes are valid batches, and the fault of the next one, if any."""
        end = 0
        for position, header in iter_headers(data):
            fault = batch_fault(data, position, header, expected, self._files.epochs)
            if fault:
                return end, fault
            end, expected = position + header.size_in_bytes, header.next_offset
        return end, "no batch can be read"

    def _find(self, segment: Segment, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch of a segment that ends at or after an offset.

        An index has no checksum, but the offsets of this log have no gaps: if the batch does not hold the offset, the
        index is wrong and rebuilt.
        """
        files = self._files
        recent = files.recent.find(offset)
        if recent is not None and recent.base_offset == segment.base_offset:
            return self._batch_at(segment, recent, offset)
        found = segment.position_of(offset)
        is_right = found is not None and found[1].base_offset <= offset
        if is_right or segment.is_active or not segment.base_offset <= offset < files.end_of(segment):
            return found
        files.context.cuts.note_rebuilt(segment.stem + INDEX_SUFFIX, f"it leads past the batch of offset {offset}")
        segment.rebuild_indexes()
        segment.forget_cached()
        return segment.position_of(offset)


def batch_fault(data: Buffer, position: int, header: BatchHeader, expected: int, epochs: LeaderEpochCache) -> str:
    """Return the fault of a batch that must begin with offset `expected`, "" if it is valid."""
    if header.magic != MAGIC_V2 or not crc_valid(data, position, header):
        return "a batch has a wrong checksum"
    if header.base_offset != expected or header.last_offset < expected:
        return f"a batch has offset {header.base_offset} instead of {expected}"
    known = epochs.lineage.epoch_at(expected)
    if header.partition_leader_epoch != known:
        return f"a batch has epoch {header.partition_leader_epoch} instead of {known}"
    return ""
