"""The log of one partition: the place where appends, reads, truncation, retention and flushes meet.

Owns the segments, the producer state, the leader epochs and the offsets that delimit the log. All methods run on the
loop thread; the few that may wait for the disk say so. It knows nothing of requests, replicas or other logs.
An OSError becomes a StorageError with the log dir, so that the owner takes that dir offline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from crabka.errors import OperationError
from crabka.log.append import NO_APPEND_TIME, AppendResult, PreparedBatch, prepare_batch
from crabka.log.log_durability import LogDurability
from crabka.log.log_reads import LogReads
from crabka.log.log_shrinking import LogShrinking
from crabka.log.offset_index import MAX_RELATIVE_OFFSET
from crabka.log.producer_state import AppendOrigin, CompletedTransaction
from crabka.log.reader import ReadSlice
from crabka.log.replay import end_marker, replay_batch
from crabka.log.segment import Segment
from crabka.log.txn_index import AbortedTransaction
from crabka.records.control import EndTransactionMarker
from crabka.records.header import (
    CONTROL_FLAG,
    PATCHED_PREFIX_SIZE,
    BatchHeader,
    crc_valid,
    iter_headers,
    parse_header,
    patched_prefix,
)

if TYPE_CHECKING:
    from crabka.ports import Buffer

__all__ = ["AppendOrigin", "AppendResult", "PartitionLog", "ReadSlice"]


class PartitionLog(LogReads, LogShrinking, LogDurability):
    """A log that is open. Made by `recovery.open_log`."""

    def append_as_leader(
        self,
        batch: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        header: BatchHeader | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verify_sequence: bool = True,
        prepared: PreparedBatch | None = None,
    ) -> AppendResult:
        """Append one batch at the log end, into the page cache; offsets and leader epoch are assigned.

        The batch passed `check_client_batch` or was built here. `prepared` is what `prepare_batch` made of it in a
        thread, for topics that need it. Raises OperationError with Kafka's code, StorageError when the disk fails.
        """
        if header is None:
            header = parse_header(batch)
        append_time_ms = NO_APPEND_TIME
        first_offset = self.log_end_offset
        marker: EndTransactionMarker | None = None
        if header.attributes & CONTROL_FLAG:
            marker = self._check_control(batch, header)
        elif header.producer_id >= 0:
            duplicate = self.producer_state.check(header, origin, verify_sequence=verify_sequence)
            if duplicate is not None:
                time_ms = duplicate.timestamp if self.config.message_timestamp_type == "LogAppendTime" else -1
                return AppendResult(
                    duplicate.first_offset, duplicate.last_offset, time_ms, self.log_start_offset, duplicate=True
                )
        if self.prepares_batches and marker is None:
            batch, header, append_time_ms = prepared or prepare_batch(batch, header, self.config, now_ms)
        last_offset = first_offset + header.last_offset_delta
        size = len(batch)
        max_timestamp = header.max_timestamp
        segment = self._active
        if self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
            self._check_fits_segment(size)
            segment = self._roll(now_ms)
        prefix = patched_prefix(first_offset, header.batch_length, leader_epoch)
        try:
            segment.append([prefix, memoryview(batch)[PATCHED_PREFIX_SIZE:]], size, last_offset, max_timestamp)
        except OSError as error:
            raise self._storage_error(error) from error
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, first_offset)
        self.log_end_offset = last_offset + 1
        if marker is not None:
            self._complete(self.producer_state.apply_marker(header, first_offset, marker))
        elif header.producer_id >= 0:
            self.producer_state.apply(header, first_offset)
        if last_offset - self.recovery_point + 1 >= self.config.flush_messages:
            self.flush()
        return AppendResult(first_offset, last_offset, append_time_ms, self.log_start_offset)

    def append_as_follower(self, batches: Buffer, *, now_ms: int = 0) -> None:
        """Append whole batches with the offsets and epochs that they have (replication, metadata log).

        Raises OperationError (CORRUPT_MESSAGE) when a checksum is wrong or offsets go back, StorageError.
        """
        view = memoryview(batches)
        for position, header in iter_headers(view):
            if header.base_offset < self.log_end_offset or not crc_valid(view, position, header):
                raise OperationError(
                    ErrorCode.corrupt_message,
                    f"batch at offset {header.base_offset} does not fit {self.topic}-{self.partition}, "
                    f"which ends at {self.log_end_offset}",
                )
            self._append_given(view[position : position + header.size_in_bytes], header, now_ms)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()

    append_raw = append_as_follower

    def _append_given(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        segment, size = self._active, len(batch)
        if segment.size and self._must_roll(segment, size, header.last_offset, header.max_timestamp, now_ms):
            segment = self._roll(now_ms, header.base_offset)
        try:
            segment.append([batch], size, header.last_offset, header.max_timestamp)
        except OSError as error:
            raise self._storage_error(error) from error
        if header.partition_leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        self.log_end_offset = header.next_offset
        if header.producer_id >= 0:
            self._complete(replay_batch(self.producer_state, batch, header))

    def _check_control(self, batch: Buffer, header: BatchHeader) -> EndTransactionMarker | None:
        marker = end_marker(batch, header)
        if marker is not None:
            self.producer_state.check_marker(header.producer_id, header.producer_epoch, marker)
        return marker

    def _complete(self, completed: CompletedTransaction | None) -> None:
        """Record an aborted transaction for read_committed consumers."""
        if completed is None or not completed.aborted:
            return
        stable = self.producer_state.last_stable_offset_after(completed)
        entry = AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        with self._storage_errors():
            self._active.append_aborted(entry)
            self._names_dirty = True

    def _must_roll(self, segment: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        return (
            segment.size + size > self._segment_bytes
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_at_ms
            or segment.full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        )

    def _check_fits_segment(self, size: int) -> None:
        if size > self._segment_bytes:
            raise OperationError(
                ErrorCode.record_list_too_large,
                f"Message batch size is {size} bytes in append to partition {self.topic}-{self.partition}, "
                f"which exceeds the maximum configured segment size of {self._segment_bytes}.",
            )
