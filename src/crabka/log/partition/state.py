"""The state that all parts of a partition log share, and the steps that several of them take.

Owns segments, producer state, leader epochs, the offsets that delimit the log, and rolling. The parts that append,
read, shrink and flush build on it; `partition_log.PartitionLog` joins them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from crabka.config.keys import LONG_MAX
from crabka.errors import StorageError, require
from crabka.ids import TopicPartition
from crabka.log.healing.damage import LogDamage
from crabka.log.partition.append import needs_preparation
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.partition.tierable import is_tierable
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.segment.aborted_note import write_aborted_note
from crabka.log.segment.segment import Segment

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.log.partition.append import PendingAppend
    from crabka.log.partition.copying import PendingCopy
    from crabka.log.partition.decompression import DecompressionBudget
    from crabka.log.partition.flushing import FlushPlan
    from crabka.log.recovery.loss import LogLoss
    from crabka.log.recovery.recovery import LoadedLog
    from crabka.log.segment.segment import SegmentContext


class MirrorListener(Protocol):
    """Whoever keeps a copy of a log."""

    def on_truncated(self, base_offset: int, size: int) -> None:
        """Hear that the log was cut: its last segment is the one at `base_offset`, with so many bytes."""
        ...


class LogState:
    """An open log without what can be done with it."""

    def __init__(
        self, context: SegmentContext, topic_partition: TopicPartition, config: TopicConfig, loaded: LoadedLog
    ) -> None:
        self.topic = topic_partition.topic
        self.partition = topic_partition.partition
        self.topic_id = loaded.topic_id
        self.path = loaded.path
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
        # How often files or names were created or removed, and how many of these changes are durable.
        self._name_changes, self._durable_names = int(loaded.names_dirty), 0
        # False once the files are given back: nothing is flushed any more.
        self.is_open = True
        # The only flush of the log that may be under way.
        self._flush: FlushPlan | None = None
        self._aborted_notes = loaded.aborted_notes
        self._tail_hints: dict[int, int] = {}
        self._truncations = 0
        # Where the log is about to be cut: the recovery point stays below.
        self._announced_cut: int | None = None
        # What is known to be damaged, and whether anything is, which every read asks.
        self.damage = LogDamage()
        self.is_damaged = False
        # Sealed, but their index files are not durable yet.
        self._unsynced: list[Segment] = []
        # How often segments were deleted, and how many of these deletions a crash can no longer undo.
        self._deletions = self._durable_deletions = 0
        # A batch on its way to the disk, behind the log end. Nobody else changes the active segment until it is there.
        self._pending: PendingAppend | PendingCopy | None = None
        # Hears of truncations while the log is copied to another log dir.
        self.mirror: MirrorListener | None = None
        # Nobody may roll, cut or shorten the log: it is about to lie in another log dir.
        self.is_held = False
        # The last offset that the remote tier is known to hold without a gap below it, -1 if nothing is known.
        self.highest_remote_offset = -1
        # Whether that is known now; if not, nothing leaves this disk for it.
        self._is_remote_offset_current = False
        # Where the log ended when it was opened, and where the records ended that may be missing there, if any may.
        self._unproven_end = None if loaded.lost_end_offset is None else loaded.log_end_offset
        self._lost_end = loaded.lost_end_offset or 0
        self._apply_settings(config)
        # What a clean stop left here, None if there was none.
        self._settled_shape = self._shape() if loaded.is_settled else None
        # Durable or committed offsets that the opening did not find; see LogLoss for what follows from it.
        self.loss: LogLoss | None = loaded.loss

    @property
    def _names_dirty(self) -> bool:
        return self._durable_names < self._name_changes

    def _note_names(self) -> None:
        """Note that the next flush must make the names in the directory durable."""
        self._name_changes += 1

    def _abandon_flush(self) -> None:
        """Let a flush that is under way have no effect any more: it is about a directory that the log has left."""
        if self._flush is not None:
            self._flush.abandon()
            self._flush = None

    def _join_flush(self) -> None:
        """Bring a flush that is under way to its end, here if no thread has begun it. Raises OSError."""
        plan = self._flush
        if plan is None:
            return
        try:
            plan.run()
        except OSError:
            self.fail_flush(plan)
            raise
        self.finish_flush(plan)

    def fail_flush(self, plan: FlushPlan) -> None:
        """Note that a plan failed: everything stays dirty."""
        if plan is self._flush:
            self._flush = None

    def finish_flush(self, plan: FlushPlan, now_ms: int | None = None) -> None:
        """Note that a plan has run: only now are its changes durable.

        A plan that was given up, or finished by someone else, has no effect; nor has one that a truncation overtook:
        all that it was about stays dirty for the next one.
        """
        if plan is not self._flush:
            return
        self._flush = None
        if now_ms is not None:
            self.last_flush_ms = now_ms
        if plan.truncations != self._truncations:
            return
        self._unsynced = [segment for segment in self._unsynced if segment not in plan.sealed]
        if plan.names:
            self._durable_names, self._durable_deletions = plan.name_changes, plan.deletions
        if plan.epochs is not None:
            self.leader_epochs.note_saved(plan.epochs_version)
        self.recovery_point = max(self.recovery_point, plan.up_to)

    def _shape(self) -> tuple[int, ...]:
        """Return what changes with any change of the log's content."""
        return (
            self.log_start_offset,
            self.log_end_offset,
            len(self._segments),
            self._segments.size_bytes,
            self._truncations,
            self._deletions,
        )

    @property
    def is_untouched(self) -> bool:
        """Whether the disk holds all that a clean stop would write, because nothing has changed since the last one.

        A leader epoch that began since and has no records says nothing that anybody needs.
        """
        return self._settled_shape == self._shape() and not self._names_dirty and not self._unsynced

    def _apply_settings(self, config: TopicConfig) -> None:
        self.config = config
        # Whether old segments are, or may be, in the remote tier only (KIP-405).
        self.is_tiered = self._context.tiering and is_tierable(self.topic, config)
        self._segment_bytes = config.effective_segment_bytes
        # Batches must be looked into or rewritten before they are appended (`prepare_batch`).
        self.prepares_batches = needs_preparation(config)
        self.flushes_by_count = config.flush_messages < LONG_MAX
        # An append may have to wait for a thread, whatever its log dir is like.
        self.has_detours = self.prepares_batches or self.flushes_by_count

    def settle_descriptor(self) -> None:
        """Let a log that was just opened hold no descriptor, if all of it is durable or there are too many already.

        May wait for the disk; the caller is in a thread, or has made the log just now. Raises StorageError.
        """
        if self.recovery_point >= self.log_end_offset:
            # A clean stop has synced the file, or it is empty.
            self._active.note_durable()
        if self._active.is_durable or not self._context.open_segments.is_crowded:
            self._active.rest()
            return
        with self._storage_errors():
            self._active.sync_and_rest()

    @property
    def decompression(self) -> DecompressionBudget:
        """What decompressed batches may hold at a time, over all logs of the node."""
        return self._context.decompression

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition of the log."""
        return TopicPartition(self.topic, self.partition)

    @property
    def log_dir(self) -> str:
        """The log dir that the log lies in."""
        return posixpath.dirname(self.path)

    @property
    def next_append_offset(self) -> int:
        """Where the next append will begin: behind the log end while a batch is on its way to the disk."""
        return self.log_end_offset if self._pending is None else self._pending.next_offset

    @property
    def is_being_written(self) -> bool:
        """Whether a batch is on its way to the disk, so that nobody else may change the log."""
        return self._pending is not None

    def flush_due(self, appended: int = 0) -> bool:
        """Return whether `flush.messages` demands a flush once so many more records are appended."""
        return self.log_end_offset + appended - self.recovery_point >= self.config.flush_messages

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
    def segment_base_offsets(self) -> list[int]:
        """Base offsets of all segments, the active one last."""
        return self._segments.bases

    def set_high_watermark(self, offset: int) -> None:
        """Move the high watermark, kept between the local log start and the log end."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        elif offset < self.log_start_offset or (self.is_tiered and offset < self.local_log_start_offset):
            offset = self.local_log_start_offset
        self.high_watermark = offset
        self.producer_state.on_high_watermark(offset)

    def update_config(self, config: TopicConfig) -> None:
        """Run with other settings from now on. A log that leaves the remote tier begins with what is on this disk."""
        was_tiered = self.is_tiered
        self._apply_settings(config)
        if was_tiered and not self.is_tiered:
            self.highest_remote_offset = -1
            self._raise_log_start(self.local_log_start_offset)
        with self._storage_errors():
            self._active.configure(config)

    def _raise_log_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            if self.recovery_point < offset:
                self.recovery_point = offset

    def roll_if_needed(self, now_ms: int) -> bool:
        """Start a new segment if the active one has batches and is open for `segment.ms`. Return whether it did.

        Goes by the clock, so that a log with old timestamps does not roll at every call. While a batch is on its way
        to the disk the roll waits for another call.
        """
        due = (
            self._pending is None
            and not self.is_held
            and self._active.size > 0
            and now_ms - self._active.created_ms > self.config.effective_segment_ms
        )
        if due:
            self._roll(now_ms)
        return due

    def roll(self, now_ms: int) -> None:
        """Start a new segment at the log end, unless the active one is empty and begins there."""
        if self._active.size > 0 or self._active.base_offset != self.log_end_offset:
            self._roll(now_ms)

    def _roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and return a new one. Sealed segments become durable with the next flush."""
        require(self._pending is None, f"{self.topic}-{self.partition}: a roll overtakes an append")
        require(not self.is_held, f"{self.topic}-{self.partition}: a roll while the log changes its dir")
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if self._active.size == 0 and self._active.base_offset == base_offset:
            return self._active
        with self._storage_errors():
            if len(self._segments) == 1:
                # Were only the next segment's name to survive a power cut, the log would seem to start there.
                self._context.fs.fsync_dir(self.path)
            self._active.seal()
            self._unsynced.append(self._active)
            self._write_aborted_note()
            self._take_snapshot(base_offset)
            return self._new_segment(base_offset, now_ms)

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(self._context, self.path, base_offset, 0)
        segment.activate(segment.empty_indexes(), self.config, now_ms)
        self._segments.add(segment)
        self._active = segment
        self._tail_hints.clear()
        self._note_names()
        return segment

    def _write_aborted_note(self) -> None:
        """Note which segments have aborted transactions, if that has changed."""
        notes = {each.base_offset: noted for each in self._segments if (noted := each.noted) and noted.size_bytes != 0}
        if notes != self._aborted_notes:
            write_aborted_note(self._context.fs, self.path, notes)
            self._aborted_notes = notes
            self._note_names()

    def _take_snapshot(self, offset: int) -> None:
        self.producer_state.map_end_offset = offset
        if offset > self._snapshots.latest:
            self._snapshots.write(offset, self.producer_state.entries.values())
            self._note_names()

    def _storage_error(self, error: OSError) -> StorageError:
        return StorageError(self.log_dir, f"{self.topic}-{self.partition}: {error}")

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._storage_error(error) from error
