"""The state that the parts of a partition log share, and the steps that several of them take.

Owns segments, producer state, leader epochs, the offsets that delimit the log, and rolling. `PartitionLog` creates it
and gives it to its collaborators. An OSError becomes a StorageError with the log dir.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from crabka.config.keys import LONG_MAX
from crabka.errors import StorageError, require
from crabka.formats.transaction_index import AbortedTransaction
from crabka.ids import TopicPartition
from crabka.log.healing.damage import LogDamage
from crabka.log.partition.append import needs_preparation
from crabka.log.partition.tierable import is_tierable
from crabka.log.segment.aborted_note import write_aborted_note
from crabka.log.segment.segment import Segment

if TYPE_CHECKING:
    from crabka.config.topic import TopicConfig
    from crabka.log.partition.append import PendingAppend
    from crabka.log.partition.copying import PendingCopy
    from crabka.log.producers.producer_state import CompletedTransaction
    from crabka.log.recovery.recovery import LoadedLog
    from crabka.log.segment.context import SegmentContext


class MirrorListener(Protocol):
    """The copy of a log in another log dir."""

    def on_truncated(self, base_offset: int, size: int) -> None:
        """Called when the log was cut: its last segment is the one at `base_offset`, with so many bytes."""
        ...


class LogState:
    """The state of an open log. Only the parts of the log change it."""

    __slots__ = (
        "aborted_notes",
        "active",
        "announced_cut",
        "config",
        "context",
        "damage",
        "deletions",
        "flushes_by_count",
        "has_slow_path",
        "high_watermark",
        "highest_remote_offset",
        "is_damaged",
        "is_held",
        "is_open",
        "is_remote_offset_current",
        "is_tiered",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "mirror",
        "name_changes",
        "partition",
        "path",
        "pending",
        "prepares_batches",
        "producer_state",
        "recovery_point",
        "segment_bytes",
        "segments",
        "snapshots",
        "tail_hints",
        "topic",
        "topic_id",
        "truncations",
        "unsynced",
    )

    def __init__(
        self, context: SegmentContext, topic_partition: TopicPartition, config: TopicConfig, loaded: LoadedLog
    ) -> None:
        self.context = context
        self.topic, self.partition = topic_partition
        self.topic_id = loaded.topic_id
        self.path = loaded.path
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.high_watermark = loaded.high_watermark
        self.leader_epochs = loaded.leader_epochs
        self.producer_state = loaded.producer_state
        self.snapshots = loaded.snapshots
        self.segments = loaded.segments
        # The last of the segments, to which appends go.
        self.active: Segment = loaded.segments.active
        # Batches that are being written after the log end. Until that is done, nothing else changes the active segment.
        self.pending: PendingAppend | PendingCopy | None = None
        # Positions of recent log ends in the active segment.
        self.tail_hints: dict[int, int] = {}
        # Known damage, and whether there is any, which every read checks.
        self.damage = LogDamage()
        self.is_damaged = False
        # False once the files are closed: nothing is flushed any more.
        self.is_open = True
        # Segments that are sealed and whose index files are not durable yet.
        self.unsynced: list[Segment] = []
        self.aborted_notes = loaded.aborted_notes
        # Counters of changes: names created or removed in the directory, deletions of segments, truncations.
        self.name_changes = int(loaded.names_dirty)
        self.deletions = self.truncations = 0
        # Where the log is about to be cut: the recovery point stays at or below.
        self.announced_cut: int | None = None
        # Notified of truncations while the log is copied to another log dir.
        self.mirror: MirrorListener | None = None
        # While set, the log is about to move to another log dir and must not roll, be cut or lose segments.
        self.is_held = False
        # The last offset that the remote tier is known to hold without a gap below it, -1 if nothing is known.
        self.highest_remote_offset = -1
        # Whether that is known now; if not, no segment leaves this disk for it.
        self.is_remote_offset_current = False
        self._apply_settings(config)

    # -- settings ------------------------------------------------------------------------------------------------

    def _apply_settings(self, config: TopicConfig) -> None:
        self.config = config
        # Whether old segments are, or may be, in the remote tier only (KIP-405).
        self.is_tiered = self.context.tiering and is_tierable(self.topic, config)
        self.segment_bytes = config.effective_segment_bytes
        # Batches must be decoded or rewritten before they are appended (`prepare_batch`).
        self.prepares_batches = needs_preparation(config)
        self.flushes_by_count = config.flush_messages < LONG_MAX
        # An append may have to wait for a thread even if the log dir is fast.
        self.has_slow_path = self.prepares_batches or self.flushes_by_count

    def update_config(self, config: TopicConfig) -> None:
        """Use other settings from now on. A log that leaves the remote tier begins with what is on this disk."""
        was_tiered = self.is_tiered
        self._apply_settings(config)
        if was_tiered and not self.is_tiered:
            self.highest_remote_offset = -1
            self.raise_log_start(self.local_log_start_offset)
        with self.storage_errors():
            self.active.configure(config)

    # -- names and offsets ---------------------------------------------------------------------------------------

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition of the log."""
        return TopicPartition(self.topic, self.partition)

    @property
    def log_dir(self) -> str:
        """The log dir that the log is in."""
        return posixpath.dirname(self.path)

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches on disk."""
        return self.segments.size_bytes

    @property
    def local_log_start_offset(self) -> int:
        """The first offset on this disk; above the log start only if older segments are in the remote tier."""
        return max(self.log_start_offset, self.segments.first.base_offset)

    @property
    def last_stable_offset(self) -> int:
        """All transactions below are decided, and replicated as far as the high watermark."""
        unstable = self.producer_state.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        # The first offset of an open transaction may be deleted already.
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def set_high_watermark(self, offset: int) -> None:
        """Move the high watermark, kept between the local log start and the log end."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        elif offset < self.log_start_offset or (self.is_tiered and offset < self.local_log_start_offset):
            offset = self.local_log_start_offset
        self.high_watermark = offset
        self.producer_state.on_high_watermark(offset)

    def raise_log_start(self, offset: int) -> None:
        """Move the log start up to `offset`, unless it is there or above."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            if self.recovery_point < offset:
                self.recovery_point = offset

    def flush_due(self, appended: int = 0) -> bool:
        """Return whether `flush.messages` demands a flush once so many more records are appended."""
        return self.log_end_offset + appended - self.recovery_point >= self.config.flush_messages

    def is_flushed(self, segment: Segment, end_offset: int) -> bool:
        """Return whether a sealed segment is durable, and with it the epochs and producers up to where it ends."""
        return end_offset <= self.recovery_point and segment not in self.unsynced

    def shape(self) -> tuple[int, ...]:
        """Return a value that changes with any change of the log's content."""
        return (
            self.log_start_offset,
            self.log_end_offset,
            len(self.segments),
            self.segments.size_bytes,
            self.truncations,
            self.deletions,
        )

    # -- segments ------------------------------------------------------------------------------------------------

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and return a new one. Sealed segments become durable with the next flush."""
        require(self.pending is None, f"{self.topic}-{self.partition}: a roll overtakes an append")
        require(not self.is_held, f"{self.topic}-{self.partition}: a roll while the log changes its dir")
        base_offset = self.log_end_offset if base_offset is None else base_offset
        if self.active.size == 0 and self.active.base_offset == base_offset:
            return self.active
        with self.storage_errors():
            if len(self.segments) == 1:
                # Were only the next segment's name to survive a power cut, the log would seem to start there.
                self.context.fs.fsync_dir(self.path)
            self.active.seal()
            self.unsynced.append(self.active)
            self.write_aborted_note()
            self.take_snapshot(base_offset)
            return self.new_segment(base_offset, now_ms)

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """Add an empty segment, which becomes the active one. Raises OSError."""
        segment = Segment(self.context, self.path, base_offset, 0)
        segment.activate(segment.empty_indexes(), self.config, now_ms)
        self.segments.add(segment)
        self.active = segment
        self.tail_hints.clear()
        self.name_changes += 1
        return segment

    def delete_segments(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Rename the files of segments that are no longer in the list; they are removed later. Raises OSError."""
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in segments:
            segment.delete_later(due_ms)
        self.name_changes += 1
        self.deletions += 1

    def close_files(self) -> None:
        """Close all files."""
        self.is_open = False
        for segment in self.segments:
            segment.close()

    # -- files beside the segments -------------------------------------------------------------------------------

    def take_snapshot(self, offset: int) -> None:
        """Write a producer snapshot at the log end, unless there is one. Raises OSError."""
        self.producer_state.map_end_offset = offset
        if offset > self.snapshots.latest:
            self.snapshots.write(offset, self.producer_state.entries.values())
            self.name_changes += 1

    def write_aborted_note(self) -> None:
        """Note which segments have aborted transactions, if that has changed. Raises OSError."""
        notes = {each.base_offset: noted for each in self.segments if (noted := each.noted) and noted.size_bytes != 0}
        if notes != self.aborted_notes:
            write_aborted_note(self.context.fs, self.path, notes)
            self.aborted_notes = notes
            self.name_changes += 1

    def note_completed(self, completed: CompletedTransaction | None) -> None:
        """Record a transaction that has ended, if it was aborted, for read_committed consumers."""
        if completed is None or not completed.aborted:
            return
        stable = self.producer_state.last_stable_offset_after(completed)
        entry = AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        with self.storage_errors():
            self.active.aborts.append(entry)
            self.name_changes += 1

    # -- errors --------------------------------------------------------------------------------------------------

    def storage_error(self, error: OSError) -> StorageError:
        """Return the error to raise when the disk fails."""
        return StorageError(self.log_dir, f"{self.topic}-{self.partition}: {error}")

    @contextmanager
    def storage_errors(self) -> Iterator[None]:
        """Raise StorageError for an OSError within."""
        try:
            yield
        except OSError as error:
            raise self.storage_error(error) from error
