"""Checking the unflushed segments of a log after a crash, batch by batch.

Everything derived from the batches is built anew on the way: indexes, transaction index, leader epochs, and a producer
snapshot at each segment's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.errors import OperationError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.recovery.cuts import LogCut
from crabka.log.recovery.replay import rebuild_producer_state, replay_batch
from crabka.log.segment.context import SegmentContext
from crabka.log.segment.indexes import IndexBuilder
from crabka.log.segment.segment import Segment
from crabka.records.header import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    BatchHeader,
    crc_valid,
    parse_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.config.topic import TopicConfig
    from crabka.log.recovery.recovery import LoadedLog
    from crabka.ports import File

CHUNK_BYTES: Final = 1024 * 1024
_MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD


class SegmentRecovery:
    """One recovery run over a log that is being opened."""

    def __init__(self, context: SegmentContext, loaded: LoadedLog, config: TopicConfig) -> None:
        self._context = context
        self._loaded = loaded
        self._config = config
        # Compaction leaves holes between offsets; elsewhere a hole means a lost write.
        self._holes_allowed = config.compact

    def run(self, recovery_point: int) -> None:
        """Check all segments from the one that holds `recovery_point` on; leaves the last one active."""
        loaded = self._loaded
        segments = loaded.segments
        first = segments.floor_index(recovery_point)
        start = segments[first].base_offset
        rebuild_producer_state(
            loaded.producer_state, loaded.snapshots, segments, start=segments.first.base_offset, end=start
        )
        # The checkpoint may hold epochs that were truncated or lost; the batches are the truth.
        loaded.leader_epochs.truncate_from_end(start)
        expected = start
        for index in range(first, len(segments)):
            segment = segments[index]
            if index > first and (segment.base_offset < expected or self._is_hole(segment.base_offset, expected)):
                self._drop_from(index, expected, f"it begins at {segment.base_offset}, and {expected} is expected")
                break
            expected = max(expected, segment.base_offset)
            if segment.base_offset > loaded.snapshots.latest and index > first:
                loaded.snapshots.write(segment.base_offset, loaded.producer_state.entries.values())
            size, expected, reason = self._recover(segment, expected)
            if size < segment.size:
                self._cut(segment, size, expected, reason)
                self._drop_from(index + 1, expected, "the segment before it was cut")
                break
        self._finish(expected, recovery_point)

    def _finish(self, end_offset: int, recovery_point: int) -> None:
        loaded = self._loaded
        active = loaded.segments.active
        active.activate(active.load_indexes(), self._config, loaded.now_ms)
        loaded.log_end_offset = loaded.producer_state.map_end_offset = end_offset
        loaded.recovery_point = min(recovery_point, end_offset)
        loaded.leader_epochs.truncate_from_end(end_offset)
        loaded.names_dirty = True

    def _is_hole(self, offset: int, expected: int) -> bool:
        return offset > expected and not self._holes_allowed

    def _recover(self, segment: Segment, expected: int) -> tuple[int, int, str]:
        """Check one segment; return the size that holds good batches, the offset after them, and what is wrong then."""
        segment.index_interval_bytes = self._config.index_interval_bytes
        builder = IndexBuilder(segment.base_offset, segment.index_interval_bytes)
        aborted: list[AbortedTransaction] = []
        size, reason = 0, ""
        for position, header, batch in checked_batches(self._context, segment):
            # The first batch of the first checked segment may start above its base: compaction cut its head.
            place = expected if size else max(expected, segment.base_offset)
            if header.base_offset < expected or self._is_hole(header.base_offset, place):
                reason = f"a batch of offset {header.base_offset} where {place} is expected"
                break
            try:
                self._replay(batch, header, aborted)
            except OperationError as error:
                reason = f"the batch at offset {header.base_offset} contradicts its producer: {error}"
                break
            builder.add(position, header)
            size = position + header.size_in_bytes
            expected = header.next_offset
        segment.write_indexes(builder.finish())
        segment.aborts.replace(aborted)
        if size < segment.size and not reason:
            reason = self._fault(segment, size)
        return size, expected, reason

    def _fault(self, segment: Segment, position: int) -> str:
        file = self._context.fs.open(segment.log_path, read_only=True)
        try:
            return batch_fault(file, position, segment.size)
        finally:
            file.close()

    def _replay(self, batch: memoryview, header: BatchHeader, aborted: list[AbortedTransaction]) -> None:
        loaded = self._loaded
        if header.partition_leader_epoch > loaded.leader_epochs.latest:
            loaded.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.producer_id < 0:
            return
        completed = replay_batch(loaded.producer_state, batch, header)
        if completed is not None and completed.aborted:
            stable = loaded.producer_state.last_stable_offset_after(completed)
            aborted.append(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )

    def _cut(self, segment: Segment, size: int, offset: int, reason: str) -> None:
        self._note(LogCut(segment.log_path, size, segment.size - size, offset, reason))
        file = self._context.fs.open(segment.log_path)
        try:
            file.truncate(size)
            file.fsync()
        finally:
            file.close()
        segment.size = size

    def _drop_from(self, index: int, offset: int, reason: str) -> None:
        for segment in self._loaded.segments.drop_from(index):
            self._note(LogCut(segment.log_path, 0, segment.size, max(offset, segment.base_offset), reason))
            segment.delete_now()
        # Before anything new is written here, so that nothing dropped comes back after the next crash.
        self._context.fs.fsync_dir(self._loaded.path)

    def _note(self, cut: LogCut) -> None:
        self._context.cuts.note_cut(cut)
        self._loaded.cuts.append(cut)


def batch_fault(file: File, position: int, end: int) -> str:
    """Return what is wrong with the batch at a position of a file that ends at `end`; empty if nothing is."""
    if end - position < HEADER_SIZE:
        return f"{end - position} bytes are no whole batch header"
    head = file.pread(HEADER_SIZE, position)
    if len(head) < HEADER_SIZE:
        return f"the file ends at {position + len(head)}, within a batch header"
    header = parse_header(head)
    if header.batch_length < _MIN_BATCH_LENGTH:
        return f"a batch cannot have {header.batch_length} bytes"
    if header.magic != MAGIC_V2:
        return f"unknown batch format {header.magic}"
    size = header.batch_length + LOG_OVERHEAD
    if position + size > end:
        return f"a batch of {size} bytes of which only {end - position} are there"
    batch = file.pread(size, position)
    if len(batch) < size or not crc_valid(batch, 0, header):
        return f"the checksum (CRC-32C) of the batch at offset {header.base_offset} does not match"
    return ""


def checked_batches(context: SegmentContext, segment: Segment) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield position, header and bytes of the batches whose length, format and checksum are right; stop at others."""
    file = context.fs.open(segment.log_path, create=True)
    try:
        yield from checked_batches_in(file, segment.size)
    finally:
        file.close()


def checked_batches_in(file: File, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Like `checked_batches`, in an open file up to `end`."""
    chunk = memoryview(b"")
    chunk_start = position = 0
    while position + HEADER_SIZE <= end:
        chunk, chunk_start = _covering(file, chunk, chunk_start, position, min(HEADER_SIZE, end - position))
        if len(chunk) - (position - chunk_start) < HEADER_SIZE:
            return
        header = parse_header(chunk, position - chunk_start)
        size = header.batch_length + LOG_OVERHEAD
        if header.batch_length < _MIN_BATCH_LENGTH or header.magic != MAGIC_V2 or position + size > end:
            return
        chunk, chunk_start = _covering(file, chunk, chunk_start, position, size)
        start = position - chunk_start
        if len(chunk) - start < size or not crc_valid(chunk, start, header):
            return
        yield position, header, chunk[start : start + size]
        position += size


def _covering(file: File, chunk: memoryview, chunk_start: int, position: int, size: int) -> tuple[memoryview, int]:
    """Return a chunk that holds `size` bytes from `position` on, as far as the file has them."""
    if position + size <= chunk_start + len(chunk):
        return chunk, chunk_start
    return memoryview(file.pread(max(CHUNK_BYTES, size), position)), position
