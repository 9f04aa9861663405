"""The log of one partition: appends of a leader, reads, and the offsets that delimit the log.

Each other duty has an object, on one shared `LogState`: `log.reads` (searches), `log.copying` (appends of a follower),
`log.durability`, `log.truncation`, `log.retention`, `log.tiering`, `log.cleaning`, `log.moving` and `log.healing`.

All methods run on the loop thread; the few that may wait for the disk say so. The log does not know requests, replicas
or other logs. An OSError becomes a StorageError with the log dir, so that the owner takes that dir offline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from crabka.errors import OperationError, require
from crabka.formats.leader_epochs import EpochEnd
from crabka.formats.offset_index import MAX_RELATIVE_OFFSET
from crabka.log.partition.append import NO_APPEND_TIME, AppendResult, PendingAppend, PreparedBatch, prepare_batch
from crabka.log.partition.cleaning import LogCleaning
from crabka.log.partition.copying import LogCopying
from crabka.log.partition.durability import LogDurability
from crabka.log.partition.healing import LogHealing
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.partition.moving import LogMoving
from crabka.log.partition.reader import EXACT, ReadSlice, empty_slice
from crabka.log.partition.reads import LogReads
from crabka.log.partition.retention import LogRetention
from crabka.log.partition.state import LogState
from crabka.log.partition.tiering import LogTiering
from crabka.log.partition.truncation import LogTruncation
from crabka.log.producers.producer_state import AppendOrigin, ProducerStateManager
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
    import uuid

    from crabka.config.topic import TopicConfig
    from crabka.ids import TopicPartition
    from crabka.log.partition.decompression import DecompressionBudget
    from crabka.log.recovery.recovery import LoadedLog
    from crabka.log.segment.context import SegmentContext
    from crabka.ports import Buffer

__all__ = ["AppendOrigin", "AppendResult", "PartitionLog", "ReadSlice"]

# Half the price of a NamedTuple's own constructor.
_new = tuple.__new__


class PartitionLog:
    """A log that is open. Made by `recovery.open_log`."""

    def __init__(
        self, context: SegmentContext, topic_partition: TopicPartition, config: TopicConfig, loaded: LoadedLog
    ) -> None:
        self.state = state = LogState(context, topic_partition, config, loaded)
        # Each append calls it: without a method in between.
        self.set_high_watermark = state.set_high_watermark
        self.reads = LogReads(state)
        self.durability = LogDurability(state, loaded)
        self.copying = LogCopying(state, self.durability)
        self.truncation = LogTruncation(state)
        self.retention = LogRetention(state)
        self.tiering = LogTiering(state, self.durability, self.truncation)
        self.cleaning = LogCleaning(state)
        self.moving = LogMoving(state, self.durability)
        self.healing = LogHealing(state)

    # -- identity and settings -------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.state.topic

    @property
    def partition(self) -> int:
        """Index of the partition."""
        return self.state.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition of the log."""
        return self.state.topic_partition

    @property
    def topic_id(self) -> uuid.UUID | None:
        """Id of the topic, None if the directory does not have it."""
        return self.state.topic_id

    @property
    def path(self) -> str:
        """Directory of the log."""
        return self.state.path

    @property
    def log_dir(self) -> str:
        """The log dir that the log is in."""
        return self.state.log_dir

    @property
    def config(self) -> TopicConfig:
        """Settings of the topic."""
        return self.state.config

    @property
    def is_tiered(self) -> bool:
        """Whether old segments are, or may be, in the remote tier only (KIP-405)."""
        return self.state.is_tiered

    @property
    def is_open(self) -> bool:
        """Whether the files are open: a closed log is not flushed."""
        return self.state.is_open

    # -- offsets and epochs ----------------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        """The first offset."""
        return self.state.log_start_offset

    @property
    def local_log_start_offset(self) -> int:
        """The first offset on this disk; above the log start only if older segments are in the remote tier."""
        return self.state.local_log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self.state.log_end_offset

    @property
    def high_watermark(self) -> int:
        """All records below are replicated."""
        return self.state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """All transactions below are decided, and replicated as far as the high watermark."""
        return self.state.last_stable_offset

    @property
    def recovery_point(self) -> int:
        """All records below are durable."""
        return self.state.recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches on disk."""
        return self.state.size_bytes

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Leader epochs and where they begin."""
        return self.state.leader_epochs

    @property
    def producer_state(self) -> ProducerStateManager:
        """Idempotent producers and open transactions."""
        return self.state.producer_state

    @property
    def next_append_offset(self) -> int:
        """Where the next append will begin: after the batches that are being written."""
        state = self.state
        return state.log_end_offset if state.pending is None else state.pending.next_offset

    @property
    def last_epoch(self) -> int:
        """The newest leader epoch that the log knows, -1 without one: that of the last record, or of no record yet."""
        return self.state.leader_epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch not above the given one and where it ends (OffsetForLeaderEpoch)."""
        return self.state.leader_epochs.lineage.end_offset_for(epoch, self.state.log_end_offset)

    @property
    def segment_base_offsets(self) -> list[int]:
        """Base offsets of all segments, the active one last."""
        return self.state.segments.bases

    def update_config(self, config: TopicConfig) -> None:
        """Use other settings from now on. A log that leaves the remote tier begins with what is on this disk."""
        self.state.update_config(config)

    # -- appends of a leader -------------------------------------------------------------------------------------

    @property
    def prepares_batches(self) -> bool:
        """Whether batches must be decoded or rewritten before they are appended (`prepare_batch`)."""
        return self.state.prepares_batches

    @property
    def flushes_by_count(self) -> bool:
        """Whether an append may demand a flush (`flush.messages`)."""
        return self.state.flushes_by_count

    @property
    def has_slow_path(self) -> bool:
        """Whether an append may have to wait for a thread even if the log dir is fast."""
        return self.state.has_slow_path

    @property
    def decompression(self) -> DecompressionBudget:
        """Memory for decompressed batches, shared by all logs of the node."""
        return self.state.context.decompression

    @property
    def is_being_written(self) -> bool:
        """Whether a batch is being written, so that nothing else may change the log."""
        return self.state.pending is not None

    def flush_due(self, appended: int = 0) -> bool:
        """Return whether `flush.messages` demands a flush once so many more records are appended."""
        return self.state.flush_due(appended)

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

        The batch passed `check_client_batch` or was built by this node. `prepared` is the result of `prepare_batch`
        from a thread, for topics that need it. `terms` are checked for batches of transactions. Raises OperationError
        with Kafka's code, StorageError when the disk fails.

        `deferred` leaves the write to the caller, who may use a thread, and the flush that `flush.messages` may
        demand. `finish_append` must follow, or `abandon_append` if nothing was written or the log dir is lost; until
        then the log takes no other append.
        """
        state = self.state
        if header is None:
            header = parse_header(batch)
        append_time_ms = NO_APPEND_TIME
        first_offset = state.log_end_offset
        marker: EndTransactionMarker | None = None
        if header.attributes & CONTROL_FLAG:
            marker = self._check_control(batch, header, terms.transaction_version)
        elif header.producer_id >= 0:
            duplicate = state.producer_state.check(header, origin, verify_sequence=verify_sequence, guard=terms.guard)
            if duplicate is not None:
                time_ms = duplicate.timestamp if state.config.message_timestamp_type == "LogAppendTime" else -1
                first_offset, last_offset = duplicate.first_offset, duplicate.last_offset
                start_offset = state.log_start_offset
                return AppendResult(first_offset, last_offset, time_ms, start_offset, leader_epoch, duplicate=True)
        if state.prepares_batches and marker is None:
            batch, header, append_time_ms = prepared or prepare_batch(batch, header, state.config, now_ms)
        last_offset = first_offset + header.last_offset_delta
        size = len(batch)
        max_timestamp = header.max_timestamp
        segment = state.active
        if (  # `LogCopying._must_roll`, without the cost of the call
            segment.size + size > state.segment_bytes
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_at_ms
            or segment.full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        ):
            self._check_fits_segment(size)
            segment = state.roll(now_ms)
        view = batch if type(batch) is memoryview else memoryview(batch)
        buffers: list[Buffer] = [
            patched_prefix(first_offset, header.batch_length, leader_epoch),
            view[PATCHED_PREFIX_SIZE:],
        ]
        if deferred or state.pending is not None:
            result = AppendResult(first_offset, last_offset, append_time_ms, state.log_start_offset, leader_epoch)
            return self._defer(buffers, header, leader_epoch, marker, result)
        try:
            segment.append(buffers, size, last_offset, max_timestamp)
        except OSError as error:
            raise state.storage_error(error) from error
        self._note_appended(header, leader_epoch, first_offset, last_offset, marker)
        if state.flushes_by_count and state.flush_due():
            self.durability.flush()
        outcome = (first_offset, last_offset, append_time_ms, state.log_start_offset, leader_epoch, False)
        return _new(AppendResult, outcome)

    def _defer(
        self,
        buffers: list[Buffer],
        header: BatchHeader,
        leader_epoch: int,
        marker: EndTransactionMarker | None,
        result: AppendResult,
    ) -> PendingAppend:
        state = self.state
        require(state.pending is None, f"{state.topic}-{state.partition}: an append overtakes another")
        segment, size = state.active, header.size_in_bytes
        with state.storage_errors():
            handle = segment.handle()
        pending = PendingAppend(segment, handle, buffers, segment.size, size, header, leader_epoch, result, marker)
        state.pending = pending
        return pending

    def finish_append(self, pending: PendingAppend) -> AppendResult:
        """Make a batch that was written a part of the log.

        Raises OperationError (NOT_LEADER_OR_FOLLOWER) if the log was closed or deleted meanwhile.
        """
        state = self.state
        require(pending is state.pending, f"{state.topic}-{state.partition}: another append has begun")
        state.pending = None
        if not pending.segment.is_active:
            raise OperationError(ErrorCode.not_leader_or_follower)
        header, (first_offset, last_offset, append_time_ms, *_) = pending.header, pending.result
        pending.segment.append(None, pending.size, last_offset, header.max_timestamp)
        self._note_appended(header, pending.leader_epoch, first_offset, last_offset, pending.marker)
        return AppendResult(first_offset, last_offset, append_time_ms, state.log_start_offset, pending.leader_epoch)

    def abandon_append(self) -> None:
        """Forget the append that is being written, of a leader or a follower."""
        self.state.pending = None

    def _note_appended(
        self,
        header: BatchHeader,
        leader_epoch: int,
        first_offset: int,
        last_offset: int,
        marker: EndTransactionMarker | None,
    ) -> None:
        state = self.state
        if leader_epoch != state.leader_epochs.latest:
            state.leader_epochs.assign(leader_epoch, first_offset)
        state.log_end_offset = last_offset + 1
        if marker is not None:
            state.note_completed(state.producer_state.apply_marker(header, first_offset, marker))
        elif header.producer_id >= 0:
            state.producer_state.apply(header, first_offset)

    def _check_control(
        self, batch: Buffer, header: BatchHeader, transaction_version: int
    ) -> EndTransactionMarker | None:
        marker = end_marker(batch, header)
        if marker is not None:
            self.state.producer_state.check_marker(
                header.producer_id, header.producer_epoch, marker, transaction_version
            )
        return marker

    def _check_fits_segment(self, size: int) -> None:
        segment_bytes = self.state.segment_bytes
        if size > segment_bytes:
            raise OperationError(
                ErrorCode.record_list_too_large,
                f"Message batch size is {size} bytes in append to partition {self.topic_partition}, "
                f"which exceeds the maximum configured segment size of {segment_bytes}.",
            )

    # -- reads ---------------------------------------------------------------------------------------------------

    def read(
        self, start_offset: int, *, max_bytes: int, upper_offset: int | None = None, min_one_batch: bool = True
    ) -> ReadSlice:
        """Plan a read from the batch that holds `start_offset`; batches from `upper_offset` on are not returned.

        Ends with the segment; the next read continues in the next one. The last batch may be cut off by `max_bytes`,
        as in Kafka. Raises OperationError (OFFSET_OUT_OF_RANGE) below the log start or above the log end, and its
        subclass OffsetInRemoteTierError for what a tiered log has in the remote tier only.
        """
        state = self.state
        if state.is_damaged:
            return self.reads.plan_around_damage(
                start_offset, max_bytes=max_bytes, upper_offset=upper_offset, min_one_batch=min_one_batch
            )
        end_offset = state.log_end_offset
        active = state.active
        if start_offset == end_offset:
            self.reads.remember_tail(end_offset, active.size)
            return empty_slice(start_offset)
        if not state.log_start_offset <= start_offset < end_offset:
            raise self.reads.out_of_range(start_offset)
        if upper_offset is not None and upper_offset <= start_offset:
            return empty_slice(start_offset)
        whole = upper_offset is None or upper_offset >= end_offset
        position = state.tail_hints.get(start_offset)
        if whole and position is not None:
            try:
                handle = active.handle()
            except OSError as error:
                raise state.storage_error(error) from error
            plan = ReadSlice(
                handle=handle,
                start_offset=start_offset,
                position=position,
                end=active.size,
                max_bytes=max_bytes,
                find_offset=EXACT,
                min_one_batch=min_one_batch,
                index=active.indexes().offsets,
            )
            if plan.length == active.size - position:
                self.reads.remember_tail(end_offset, active.size)
            return plan
        return self.reads.plan_by_index(
            start_offset,
            max_bytes=max_bytes,
            upper_offset=None if whole else upper_offset,
            min_one_batch=min_one_batch,
        )

    # -- segments and files --------------------------------------------------------------------------------------

    def roll_if_needed(self, now_ms: int) -> bool:
        """Start a new segment if the active one has batches and is open for `segment.ms`. Return whether it did.

        Goes by the clock, so that a log with old timestamps does not roll at every call. While a batch is being written
        the roll waits for another call.
        """
        state = self.state
        due = (
            state.pending is None
            and not state.is_held
            and state.active.size > 0
            and now_ms - state.active.created_ms > state.config.effective_segment_ms
        )
        if due:
            state.roll(now_ms)
        return due

    def roll(self, now_ms: int) -> None:
        """Start a new segment at the log end, unless the active one is empty and begins there."""
        state = self.state
        if state.active.size > 0 or state.active.base_offset != state.log_end_offset:
            state.roll(now_ms)

    def flush(self, up_to: int | None = None) -> None:
        """Make the log durable, at least below `up_to`. Waits for the disk. Raises StorageError."""
        self.durability.flush(up_to)

    def close(self, *, clean: bool) -> None:
        """Close all files. `clean` first writes what an opening without a scan needs. Raises StorageError."""
        if clean:
            self.durability.settle()
        self.state.close_files()
