"""Appends of a follower: batches of the leader are written as they are (replication).

They come with offsets, epochs and checksums. Each is checked once, by its header and CRC; records are not decoded,
except in the markers of transactions. Batches that go into one segment become one write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from crabka.errors import OperationError, require
from crabka.formats.offset_index import MAX_RELATIVE_OFFSET
from crabka.log.recovery.replay import end_marker
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    BatchHeader,
    iter_headers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.log.partition.durability import LogDurability
    from crabka.log.partition.state import LogState
    from crabka.log.segment.caches import Handle
    from crabka.log.segment.segment import Segment
    from crabka.ports import Buffer
    from crabka.records.control import EndTransactionMarker

ANY_EPOCH: Final = (1 << 31) - 1

# Half the cost of a NamedTuple's own constructor.
_new_tuple = tuple.__new__


class CopiedBatch(NamedTuple):
    """A batch that passed the checks, with what is needed after it was written."""

    position: int
    # After its last byte.
    end: int
    last_offset: int
    header: BatchHeader
    # The end of a transaction, if the batch is one.
    marker: EndTransactionMarker | None


class PendingCopy(NamedTuple):
    """Batches of a leader for one segment, to be written at once. The log takes nothing else until that is finished."""

    segment: Segment
    handle: Handle
    data: memoryview
    position: int
    batches: list[CopiedBatch]

    @property
    def next_offset(self) -> int:
        """Where the log will end."""
        return self.batches[-1].last_offset + 1

    def write(self) -> None:
        """Write the batches into the page cache. May run in any thread; raises OSError."""
        # The handle is the append's own, so the file stays open when its log is closed or deleted meanwhile.
        self.handle.file.pwritev([self.data], self.position)


class LogCopying:
    """Appends batches of a leader."""

    __slots__ = ("_durability", "_state")

    def __init__(self, state: LogState, durability: LogDurability) -> None:
        self._state = state
        self._durability = durability

    def append_as_follower(self, batches: Buffer, *, now_ms: int = 0, max_epoch: int = ANY_EPOCH) -> int:
        """Append whole batches with the offsets and epochs that they have; return how many bytes these were.

        A batch that is cut off at the end is left out. So are batches of a newer leader epoch than `max_epoch`, the one
        of the leader that was asked. Raises OperationError (CORRUPT_MESSAGE) when a checksum is wrong or offsets go
        back, before anything is written, and StorageError.
        """
        size = 0
        state = self._state
        for pending in self.copies(batches, now_ms=now_ms, max_epoch=max_epoch):
            try:
                pending.write()
            except OSError as error:
                state.pending = None
                raise state.storage_error(error) from error
            self.finish_copy(pending)
            size += len(pending.data)
        if state.flushes_by_count and state.flush_due():
            self._durability.flush()
        return size

    def copies(self, batches: Buffer, *, now_ms: int = 0, max_epoch: int = ANY_EPOCH) -> Iterator[PendingCopy]:
        """Yield the writes of `append_as_follower` for a caller who may use a thread.

        Each must be finished by `finish_copy`, or given up by `PartitionLog.abandon_append`, before the next one is
        taken. The flush that `flush.messages` may demand is left to the caller as well. Raises as `append_as_follower`.
        """
        state = self._state
        require(state.pending is None, f"{state.topic}-{state.partition}: an append overtakes another")
        view = memoryview(batches)
        run: list[CopiedBatch] = []
        start = 0
        for batch in self._checked_copies(view, max_epoch):
            position, end, last_offset, header, _ = batch
            active = state.active
            if (run or active.size or last_offset - active.base_offset > MAX_RELATIVE_OFFSET) and self._must_roll(
                active, end - start, last_offset, header.max_timestamp, now_ms
            ):
                if run:
                    yield self._begin_copy(view[start:position], run)
                state.roll(now_ms, header.base_offset)
                run, start = [], position
            run.append(batch)
        if run:
            yield self._begin_copy(view[start : run[-1].end], run)

    def _checked_copies(self, view: memoryview, max_epoch: int) -> list[CopiedBatch]:
        checked: list[CopiedBatch] = []
        expected = self._state.log_end_offset
        for position, header in iter_headers(view):
            base_offset, length, epoch, magic, crc, attributes, delta, *_ = header
            if epoch > max_epoch:
                break
            end = position + length + LOG_OVERHEAD
            if base_offset < expected or delta < 0 or magic != MAGIC_V2:
                raise OperationError(
                    ErrorCode.corrupt_message,
                    f"batch at offset {base_offset} does not fit {self._state.topic_partition}, "
                    f"which ends at {expected}",
                )
            found = crc32c(view[position + ATTRIBUTES_POSITION : end])
            if crc != found:
                raise OperationError(
                    ErrorCode.corrupt_message,
                    f"batch at offset {base_offset} of {self._state.topic_partition} is damaged: its checksum (CRC-32C)"
                    f" is {found:#010x}, and {crc:#010x} in its header",
                )
            marker = end_marker(view[position:end], header) if attributes & CONTROL_FLAG else None
            checked.append(_new_tuple(CopiedBatch, (position, end, base_offset + delta, header, marker)))
            expected = base_offset + delta + 1
        return checked

    def _begin_copy(self, data: memoryview, batches: list[CopiedBatch]) -> PendingCopy:
        state = self._state
        segment = state.active
        with state.storage_errors():
            handle = segment.handle()
        pending = PendingCopy(segment, handle, data, segment.size, batches)
        state.pending = pending
        # At once: this node may become the leader while a thread writes, and add its own epoch after these.
        for _, _, _, header, _ in batches:
            if header.partition_leader_epoch > state.leader_epochs.latest:
                state.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        return pending

    def finish_copy(self, pending: PendingCopy) -> None:
        """Make batches that were written a part of the log.

        Raises OperationError (NOT_LEADER_OR_FOLLOWER) if the log was closed or deleted meanwhile.
        """
        state = self._state
        require(pending is state.pending, f"{state.topic}-{state.partition}: another append has begun")
        state.pending = None
        segment = pending.segment
        if not segment.is_active:
            raise OperationError(ErrorCode.not_leader_or_follower)
        for position, end, last_offset, header, marker in pending.batches:
            segment.append(None, end - position, last_offset, header.max_timestamp)
            state.log_end_offset = last_offset + 1
            if header.producer_id >= 0:
                self._note_producer(header, marker)

    def _note_producer(self, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        producers = self._state.producer_state
        if not header.attributes & CONTROL_FLAG:
            producers.apply(header, header.base_offset)
        elif marker is not None:
            self._state.note_completed(producers.apply_marker(header, header.base_offset, marker))
        elif header.records_count == 0:
            producers.apply_emptied_marker(header)

    def _must_roll(self, segment: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        return (
            segment.size + size > self._state.segment_bytes
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_at_ms
            or segment.full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )
