"""The log of one partition: the place where appends, reads, truncation, retention and flushes meet.

Owns the segments, the producer state, the leader epochs and the offsets that delimit the log. All methods run on the
loop thread; the few that may wait for the disk say so. It knows nothing of requests, replicas or other logs.
An OSError becomes a StorageError with the log dir, so that the owner takes that dir offline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from crabka.errors import OperationError, require
from crabka.formats.offset_index import MAX_RELATIVE_OFFSET
from crabka.log.partition.append import NO_APPEND_TIME, AppendResult, PendingAppend, PreparedBatch, prepare_batch
from crabka.log.partition.cleaning import LogCleaning
from crabka.log.partition.copying import LogCopying
from crabka.log.partition.healing import LogHealing
from crabka.log.partition.moving import LogMoving
from crabka.log.partition.reader import ReadSlice
from crabka.log.partition.reads import LogReads
from crabka.log.partition.tiering import LogTiering
from crabka.log.producers.producer_state import AppendOrigin
from crabka.log.producers.verification import ANY_TERMS, AppendTerms
from crabka.log.recovery.replay import end_marker
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker
from crabka.records.header import (
    CONTROL_FLAG,
    PATCHED_PREFIX_SIZE,
    BatchHeader,
    parse_header,
    patched_prefix,
)

if TYPE_CHECKING:
    from crabka.ports import Buffer
__all__ = ["AppendOrigin", "AppendResult", "PartitionLog", "ReadSlice"]


class PartitionLog(LogReads, LogCopying, LogTiering, LogCleaning, LogMoving, LogHealing):
    """A log that is open. Made by `recovery.open_log`."""

    @overload
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
        terms: AppendTerms = ANY_TERMS,
    ) -> AppendResult: ...

    @overload
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
        terms: AppendTerms = ANY_TERMS,
        deferred: bool,
    ) -> AppendResult | PendingAppend: ...

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
        terms: AppendTerms = ANY_TERMS,
        deferred: bool = False,
    ) -> AppendResult | PendingAppend:
        """Append one batch at the log end, into the page cache; offsets and leader epoch are assigned.

        The batch passed `check_client_batch` or was built here. `prepared` is what `prepare_batch` made of it in a
        thread, for topics that need it. `terms` matter to batches of transactions. Raises OperationError with Kafka's
        code, StorageError when the disk fails.

        `deferred` leaves the write to the caller, who may use a thread, and the flush that `flush.messages` may
        demand. Then comes `finish_append`, or `abandon_append` if nothing was written or the log dir is lost; until
        then the log takes no other append.
        """
        if header is None:
            header = parse_header(batch)
        append_time_ms = NO_APPEND_TIME
        first_offset = self.log_end_offset
        marker: EndTransactionMarker | None = None
        if header.attributes & CONTROL_FLAG:
            marker = self._check_control(batch, header, terms.transaction_version)
        elif header.producer_id >= 0:
            duplicate = self.producer_state.check(header, origin, verify_sequence=verify_sequence, guard=terms.guard)
            if duplicate is not None:
                time_ms = duplicate.timestamp if self.config.message_timestamp_type == "LogAppendTime" else -1
                first_offset, last_offset = duplicate.first_offset, duplicate.last_offset
                start_offset = self.log_start_offset
                return AppendResult(first_offset, last_offset, time_ms, start_offset, leader_epoch, duplicate=True)
        if self.prepares_batches and marker is None:
            batch, header, append_time_ms = prepared or prepare_batch(batch, header, self.config, now_ms)
        last_offset = first_offset + header.last_offset_delta
        size = len(batch)
        max_timestamp = header.max_timestamp
        segment = self._active
        if (  # `_must_roll`, without the cost of the call
            segment.size + size > self._segment_bytes
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_at_ms
            or segment.full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            self._check_fits_segment(size)
            segment = self._roll(now_ms)
        view = batch if type(batch) is memoryview else memoryview(batch)
        buffers: list[Buffer] = [
            patched_prefix(first_offset, header.batch_length, leader_epoch),
            view[PATCHED_PREFIX_SIZE:],
        ]
        if deferred or self._pending is not None:
            result = AppendResult(first_offset, last_offset, append_time_ms, self.log_start_offset, leader_epoch)
            return self._defer(buffers, header, leader_epoch, marker, result)
        try:
            segment.append(buffers, size, last_offset, max_timestamp)
        except OSError as error:
            raise self._storage_error(error) from error
        self._note_appended(header, leader_epoch, first_offset, last_offset, marker)
        if self.flushes_by_count and self.flush_due():
            self.flush()
        return AppendResult(first_offset, last_offset, append_time_ms, self.log_start_offset, leader_epoch)

    def _defer(
        self,
        buffers: list[Buffer],
        header: BatchHeader,
        leader_epoch: int,
        marker: EndTransactionMarker | None,
        result: AppendResult,
    ) -> PendingAppend:
        require(self._pending is None, f"{self.topic}-{self.partition}: an append overtakes another")
        segment, size = self._active, header.size_in_bytes
        with self._storage_errors():
            handle = segment.handle()
        self._pending = PendingAppend(
            segment, handle, buffers, segment.size, size, header, leader_epoch, result, marker
        )
        return self._pending

    def finish_append(self, pending: PendingAppend) -> AppendResult:
        """Make a batch that was written a part of the log.

        Raises OperationError (NOT_LEADER_OR_FOLLOWER) if the log was closed or deleted meanwhile.
        """
        require(pending is self._pending, f"{self.topic}-{self.partition}: another append has begun")
        self._pending = None
        if not pending.segment.is_active:
            raise OperationError(ErrorCode.not_leader_or_follower)
        header, (first_offset, last_offset, append_time_ms, *_) = pending.header, pending.result
        pending.segment.append(None, pending.size, last_offset, header.max_timestamp)
        self._note_appended(header, pending.leader_epoch, first_offset, last_offset, pending.marker)
        return AppendResult(first_offset, last_offset, append_time_ms, self.log_start_offset, pending.leader_epoch)

    def _note_appended(
        self,
        header: BatchHeader,
        leader_epoch: int,
        first_offset: int,
        last_offset: int,
        marker: EndTransactionMarker | None,
    ) -> None:
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, first_offset)
        self.log_end_offset = last_offset + 1
        if marker is not None:
            self._complete(self.producer_state.apply_marker(header, first_offset, marker))
        elif header.producer_id >= 0:
            self.producer_state.apply(header, first_offset)

    def _check_control(
        self, batch: Buffer, header: BatchHeader, transaction_version: int
    ) -> EndTransactionMarker | None:
        marker = end_marker(batch, header)
        if marker is not None:
            self.producer_state.check_marker(header.producer_id, header.producer_epoch, marker, transaction_version)
        return marker

    def _check_fits_segment(self, size: int) -> None:
        if size > self._segment_bytes:
            raise OperationError(
                ErrorCode.record_list_too_large,
                f"Message batch size is {size} bytes in append to partition {self.topic}-{self.partition}, "
                f"which exceeds the maximum configured segment size of {self._segment_bytes}.",
            )
