"""The log of one partition: the place where appends, reads, truncation, retention and flushes meet.

Owns the segments, the producer state, the leader epochs and the offsets that delimit the log. All methods run on the
loop thread; the few that may wait for the disk say so. It knows nothing of requests, replicas or other logs.
An OSError becomes a StorageError with the log dir, so that the owner takes that dir offline.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from crabka.errors import OperationError, StorageError
from crabka.ids import TopicPartition
from crabka.log import retention
from crabka.log.append import NO_APPEND_TIME, AppendResult, PreparedBatch, needs_preparation, prepare_batch
from crabka.log.flushing import FlushPlan
from crabka.log.leader_epochs import EpochEnd, LeaderEpochCache
from crabka.log.naming import PARTITION_METADATA, DirectoryKind, marked_name
from crabka.log.offset_index import MAX_RELATIVE_OFFSET
from crabka.log.producer_state import AppendOrigin, CompletedTransaction, ProducerStateManager
from crabka.log.reader import EXACT, ReadSlice, empty_slice, plan_in_segment
from crabka.log.replay import end_marker, rebuild_producer_state, replay_batch
from crabka.log.segment import Segment
from crabka.log.timestamps import TimestampOffset, find_by_timestamp, find_max_timestamp
from crabka.log.txn_index import AbortedTransaction, overlapping
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
    import uuid

    from crabka.config.topic import TopicConfig
    from crabka.log.recovery import LoadedLog
    from crabka.log.segment import SegmentContext
    from crabka.ports import Buffer

__all__ = ["AppendOrigin", "AppendResult", "PartitionLog", "ReadSlice"]

# Positions of recent log ends: a consumer at the tail asks for exactly these offsets next.
_MAX_TAIL_HINTS: Final = 16


class PartitionLog:
    """A log that is open. Made by `recovery.open_log`."""

    def __init__(
        self, context: SegmentContext, topic_partition: TopicPartition, config: TopicConfig, loaded: LoadedLog
    ) -> None:
        self.topic = topic_partition.topic
        self.partition = topic_partition.partition
        self.topic_id = loaded.topic_id
        self.path = loaded.path
        self.config = config
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.high_watermark = loaded.high_watermark
        self.leader_epochs: LeaderEpochCache = loaded.leader_epochs
        self.producer_state: ProducerStateManager = loaded.producer_state
        self.last_flush_ms = loaded.now_ms
        self._context = context
        self._snapshots = loaded.snapshots
        self._segments = loaded.segments
        self._active = loaded.segments.active
        # Files or names were created since the last flush.
        self._names_dirty = loaded.names_dirty
        self._tail_hints: dict[int, int] = {}
        self._truncations = 0
        # Sealed, but their index files are not durable yet.
        self._unsynced: list[Segment] = []
        # How often segments were deleted, and how many of these deletions a crash can no longer undo.
        self._deletions = self._durable_deletions = 0
        self._segment_bytes = config.effective_segment_bytes
        # Batches must be looked into or rewritten before they are appended (`prepare_batch`).
        self.prepares_batches = needs_preparation(config)

    # -- facts -------------------------------------------------------------------------------------------------

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition of the log."""
        return TopicPartition(self.topic, self.partition)

    @property
    def log_dir(self) -> str:
        """The log dir that the log lies in."""
        return posixpath.dirname(self.path)

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches on disk."""
        return self._segments.size_bytes

    @property
    def local_log_start_offset(self) -> int:
        """The first offset on this disk; above the log start only if older segments are in the remote tier."""
        return max(self.log_start_offset, self._segments.first.base_offset)

    @property
    def last_stable_offset(self) -> int:
        """All transactions below are decided, and replicated as far as the high watermark."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        # The begin of an open transaction may be deleted already.
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def checkpoint_recovery_point(self) -> int:
        """The recovery point as it may be written down: not above a segment whose indexes are not durable."""
        first = self._unsynced[0] if self._unsynced else self._active
        return min(self.recovery_point, first.base_offset)

    @property
    def segment_base_offsets(self) -> list[int]:
        """Base offsets of all segments, the active one last."""
        return self._segments.bases

    # -- appending ---------------------------------------------------------------------------------------------

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
        if last_offset - self.recovery_point >= self.config.flush_messages:
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
        if self.log_end_offset - self.recovery_point > self.config.flush_messages:
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

    # -- rolling -----------------------------------------------------------------------------------------------

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

    def roll_if_needed(self, now_ms: int) -> bool:
        """Start a new segment if the active one has batches and `segment.ms` has passed. Return whether it did."""
        due = now_ms > min(self._active.roll_timestamp, self._active.roll_at_ms)
        if due:
            self._roll(now_ms)
        return due

    def roll(self, now_ms: int) -> None:
        """Start a new segment at the log end, unless the active one is empty and begins there."""
        if self._active.size > 0 or self._active.base_offset != self.log_end_offset:
            self._roll(now_ms)

    def _roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and return a new one. Sealed segments become durable with the next flush."""
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if self._active.size == 0 and self._active.base_offset == base_offset:
            return self._active
        with self._storage_errors():
            self._active.seal()
            self._unsynced.append(self._active)
            self._take_snapshot(base_offset)
            return self._new_segment(base_offset, now_ms)

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(self._context, self.path, base_offset, 0)
        segment.activate(segment.empty_indexes(), self.config, now_ms)
        self._segments.add(segment)
        self._active = segment
        self._tail_hints.clear()
        self._names_dirty = True
        return segment

    def _take_snapshot(self, offset: int) -> None:
        self.producer_state.map_end_offset = offset
        if offset > self._snapshots.latest:
            self._snapshots.write(offset, self.producer_state.entries.values())
            self._names_dirty = True

    # -- reading -----------------------------------------------------------------------------------------------

    def read(
        self, start_offset: int, *, max_bytes: int, upper_offset: int | None = None, min_one_batch: bool = True
    ) -> ReadSlice:
        """Plan a read from the batch that holds `start_offset`; batches from `upper_offset` on are not returned.

        Ends with the segment; the next read goes on in the next one. The last batch may be cut off by `max_bytes`,
        as in Kafka. Raises OperationError (OFFSET_OUT_OF_RANGE) below the log start or above the log end.
        """
        end_offset = self.log_end_offset
        active = self._active
        if start_offset == end_offset:
            self._remember_tail(end_offset, active.size)
            return empty_slice(start_offset)
        if not self.log_start_offset <= start_offset < end_offset:
            raise OperationError(
                ErrorCode.offset_out_of_range,
                f"Received request for offset {start_offset} for partition {self.topic}-{self.partition}, but we only "
                f"have log segments from offset {self.log_start_offset} up to {end_offset}.",
            )
        if upper_offset is not None and upper_offset <= start_offset:
            return empty_slice(start_offset)
        whole = upper_offset is None or upper_offset >= end_offset
        position = self._tail_hints.get(start_offset)
        if whole and position is not None:
            plan = ReadSlice(
                handle=active.handle(),
                start_offset=start_offset,
                position=position,
                end=active.size,
                max_bytes=max_bytes,
                find_offset=EXACT,
                min_one_batch=min_one_batch,
            )
            if plan.length == active.size - position:
                self._remember_tail(end_offset, active.size)
            return plan
        upper = None if whole else upper_offset
        return self._plan_by_index(start_offset, max_bytes=max_bytes, upper=upper, min_one_batch=min_one_batch)

    def _plan_by_index(self, start_offset: int, *, max_bytes: int, upper: int | None, min_one_batch: bool) -> ReadSlice:
        with self._storage_errors():
            index = self._segments.floor_index(start_offset)
            while index + 1 < len(self._segments) and not self._segments[index].reaches(start_offset):
                index += 1
            segment = self._segments[index]
            if upper is not None and upper >= self._segments.upper_bound(index, self.log_end_offset):
                upper = None
            plan = plan_in_segment(
                segment, start_offset, max_bytes=max_bytes, upper_offset=upper, min_one_batch=min_one_batch
            )
        if segment is self._active and upper is None and plan.length == plan.end - plan.position:
            self._remember_tail(self.log_end_offset, segment.size)
        return plan

    def _remember_tail(self, end_offset: int, position: int) -> None:
        hints = self._tail_hints
        if end_offset not in hints:
            if len(hints) >= _MAX_TAIL_HINTS:
                del hints[next(iter(hints))]
            hints[end_offset] = position

    def aborted_transactions(self, start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read_committed consumer of [start, upper) must know."""
        found: list[AbortedTransaction] = []
        with self._storage_errors():
            for segment in self._segments.from_offset(start_offset):
                entries, complete = overlapping(segment.aborted(), start_offset, upper_offset)
                found += entries
                if complete:
                    break
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is not below the given one. May wait for the disk."""
        with self._storage_errors():
            return find_by_timestamp(self._segments, timestamp, self.local_log_start_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp. May wait for the disk."""
        with self._storage_errors():
            return find_max_timestamp(self._segments)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch not above the given one and where it ends (OffsetForLeaderEpoch)."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # -- moving the ends -----------------------------------------------------------------------------------------

    def set_high_watermark(self, offset: int) -> None:
        """Move the high watermark, kept between log start and log end."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        elif offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = offset
        self.producer_state.on_high_watermark(offset)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset` (-1: the high watermark); return the new log start.

        Segments below go with the next retention run. Raises OperationError (OFFSET_OUT_OF_RANGE) above the
        high watermark.
        """
        target = self.high_watermark if offset == -1 else offset
        if target > self.high_watermark or target < 0:
            raise OperationError(
                ErrorCode.offset_out_of_range,
                f"Cannot increment the log start offset to {target} of partition {self.topic}-{self.partition} since "
                f"it is larger than the high watermark {self.high_watermark}",
            )
        self._raise_log_start(target)
        return self.log_start_offset

    def _raise_log_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            if self.recovery_point < offset:
                self.recovery_point = offset

    def truncate_to(self, offset: int, *, now_ms: int = 0) -> bool:
        """Drop everything from `offset` on; return whether anything went. Durable on return.

        A batch that holds the offset goes as a whole, so the log may end lower.

        The owner must checkpoint the lowered recovery point before it appends again.
        """
        if offset >= self.log_end_offset:
            return False
        if offset <= self._segments.first.base_offset:
            self.truncate_fully(offset, now_ms=now_ms)
            return True
        with self._storage_errors():
            index = self._segments.floor_index(offset - 1)
            self._delete_segments(self._segments.drop_from(index + 1), now_ms)
            self._active = self._segments.active
            if not self._active.is_active:
                self._active.activate(self._active.load_indexes(), self.config, now_ms)
            end_offset = self._active.truncate(offset)
            if end_offset < self.log_start_offset <= offset:
                # The rest of the batch at the log start went; what lies before it was deleted long ago.
                self.truncate_fully(self.log_start_offset, now_ms=now_ms)
            else:
                self.log_start_offset = min(self.log_start_offset, end_offset)
                self._after_truncation(end_offset)
        return True

    def truncate_fully(self, offset: int, *, now_ms: int = 0) -> None:
        """Drop everything and start again, empty, at `offset`. Durable on return."""
        with self._storage_errors():
            self._delete_segments(self._segments.drop_from(0), now_ms)
            self._new_segment(offset, now_ms)
            self.leader_epochs.clear()
            self._snapshots.remove_outside(0, -1)
            self.producer_state.load([], offset)
            self.log_end_offset = self.log_start_offset = offset
            self._after_truncation(offset)

    def _after_truncation(self, offset: int) -> None:
        self._truncations += 1
        self._unsynced = [segment for segment in self._unsynced if segment in self._segments and not segment.is_active]
        self._tail_hints.clear()
        self._context.fs.fsync_dir(self.path)
        self.log_end_offset = max(offset, self._segments.first.base_offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.leader_epochs.truncate_from_end(offset)
        rebuild_producer_state(
            self.producer_state, self._snapshots, self._segments, start=self.log_start_offset, end=self.log_end_offset
        )
        self.set_high_watermark(min(self.high_watermark, self.log_end_offset))

    # -- retention -----------------------------------------------------------------------------------------------

    def apply_retention(self, now_ms: int) -> list[Segment]:
        """Drop the segments that age, size and log start no longer keep; return them."""
        self.expire_by_retention(now_ms)
        return self.delete_below_log_start(now_ms)

    def expire_by_retention(self, now_ms: int) -> bool:
        """Move the log start behind the segments that age and size no longer keep; return whether it moved.

        The owner checkpoints log starts before it calls `delete_below_log_start`: a crash in the middle of deleting
        may bring any of the files back, and only the log start tells that they are old.
        """
        config, before = self.config, self.log_start_offset
        if config.delete and not config.remote_storage_enable:
            # What is in the remote tier, and so may leave this disk, is the tier's to say.
            if config.retention_bytes >= 0:
                self._expire(retention.expired_by_size(self.size_bytes, config.retention_bytes))
            if config.retention_ms >= 0:
                self._expire(retention.expired_by_time(now_ms, config.retention_ms))
        return self.log_start_offset > before

    def delete_below_log_start(self, now_ms: int) -> list[Segment]:
        """Drop the segments that lie wholly below the log start; return them."""
        with self._storage_errors():
            count = self._count_deletable(retention.expired_by_log_start(self.log_start_offset))
            if count == 0:
                return []
            if count == len(self._segments):
                # A log is never without a segment, and the new one must know where the log ends.
                self._roll(now_ms)
            dropped = self._segments.drop_first(count)
            self._unsynced = [segment for segment in self._unsynced if segment not in dropped]
            self._delete_segments(dropped, now_ms)
            for segment in dropped:
                self._snapshots.remove(segment.base_offset)
        return dropped

    def _expire(self, expired: retention.Expired) -> None:
        with self._storage_errors():
            count = self._count_deletable(expired)
            if count:
                self._raise_log_start(self._segments.upper_bound(count - 1, self.log_end_offset))

    def _count_deletable(self, expired: retention.Expired) -> int:
        return retention.count_deletable(
            self._segments, end=self.high_watermark, log_end=self.log_end_offset, expired=expired
        )

    def _delete_segments(self, segments: list[Segment], now_ms: int) -> None:
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in segments:
            segment.delete_later(due_ms)
        self._names_dirty = True
        self._deletions += 1

    def has_unflushed_segments(self) -> bool:
        """Return whether a sealed segment is not durable yet."""
        return self.recovery_point < self._active.base_offset

    def needs_start_checkpoint(self) -> bool:
        """Return whether the files alone do not tell the log start, or would not after a crash."""
        trimmed = self.log_start_offset != self._segments.first.base_offset
        return trimmed or self._durable_deletions < self._deletions or self.config.remote_storage_enable

    # -- durability ----------------------------------------------------------------------------------------------

    def begin_flush(self) -> FlushPlan | None:
        """Return what a flush up to the log end must sync, None if nothing is dirty. The plan runs in any thread."""
        if self.recovery_point >= self.log_end_offset and not self._names_dirty and not self.leader_epochs.dirty:
            return None
        paths: list[str] = []
        unflushed = [segment for segment in self._segments.from_offset(self.recovery_point) if not segment.is_active]
        for segment in {*unflushed, *self._unsynced}:
            paths += segment.paths()
        paths += [self._snapshots.path(o) for o in self._snapshots.offsets if o >= self.recovery_point]
        names, self._names_dirty = self._names_dirty, False
        if names:
            paths.append(f"{self.path}/{PARTITION_METADATA}")
        epochs = self.leader_epochs.encode() if self.leader_epochs.dirty else None
        self.leader_epochs.dirty = False
        return FlushPlan(
            fs=self._context.fs,
            directory=self.path,
            up_to=self.log_end_offset,
            paths=paths,
            active=self._active.handle(),
            epochs=epochs,
            names=names,
            truncations=self._truncations,
            sealed=tuple(self._unsynced),
            deletions=self._deletions,
        )

    def finish_flush(self, plan: FlushPlan, now_ms: int | None = None) -> None:
        """Note that a plan has run; a truncation meanwhile wins."""
        self._unsynced = [segment for segment in self._unsynced if segment not in plan.sealed]
        if plan.names:
            self._durable_deletions = plan.deletions
        if plan.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, plan.up_to)
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def flush(self, up_to: int | None = None) -> None:
        """Make the log durable, at least below `up_to`. Waits for the disk. Raises StorageError."""
        if up_to is not None and up_to <= self.recovery_point:
            return
        plan = self.begin_flush()
        if plan is not None:
            with self._storage_errors():
                plan.run()
            self.finish_flush(plan)

    def update_config(self, config: TopicConfig) -> None:
        """Run with other settings from now on."""
        self.config = config
        self._segment_bytes = config.effective_segment_bytes
        self.prepares_batches = needs_preparation(config)
        with self._storage_errors():
            self._active.configure(config)

    def close(self, *, clean: bool) -> None:
        """Let go of all files. `clean` first writes everything that an opening without a scan needs."""
        if clean:
            with self._storage_errors():
                self._active.persist_indexes(final=True)
                self._take_snapshot(self.log_end_offset)
                self._names_dirty = True
                self.flush()
                FlushPlan(fs=self._context.fs, directory=self.path, up_to=0, paths=self._active.paths()).run()
        for segment in self._segments:
            segment.close()

    def delete(self, unique: uuid.UUID, now_ms: int) -> str:
        """Rename the directory to `-delete` and hand it over for removal; return its new path."""
        path = self.rename_directory(marked_name(self.topic_partition, DirectoryKind.DELETE, unique))
        for segment in self._segments:
            segment.close()
        self._context.schedule_deletion(path, now_ms + self.config.file_delete_delay_ms)
        return path

    def rename_directory(self, name: str) -> str:
        """Move the log to another name in the same log dir, durably; return the new path."""
        target = f"{self.log_dir}/{name}"
        with self._storage_errors():
            self._context.fs.rename(self.path, target)
            self._context.fs.fsync_dir(self.log_dir)
        self.path = target
        self._snapshots.move(target)
        for segment in self._segments:
            segment.move(target)
        return target

    # -- errors --------------------------------------------------------------------------------------------------

    def _storage_error(self, error: OSError) -> StorageError:
        return StorageError(self.log_dir, f"{self.topic}-{self.partition}: {error}")

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._storage_error(error) from error
