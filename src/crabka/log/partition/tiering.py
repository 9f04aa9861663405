"""The tiered side of a partition log: what the remote tier may take, what may leave this disk for it, and beginning
anew behind what it holds (KIP-405).

Knows the highest offset of the remote tier because it is told. It does not know storages or remote metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crabka.errors import CorruptDataError, OperationError, require
from crabka.formats.file_names import INDEX_SUFFIX, LEADER_EPOCH_CHECKPOINT, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from crabka.log.partition import retention
from crabka.log.partition.durability import LogDurability
from crabka.log.partition.shrinking import LogShrinking
from crabka.log.partition.tierable import SegmentExtent, TierableSegment, UntieredPart
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.producers.snapshots import decode_snapshot
from crabka.log.recovery.replay import replay_segment
from crabka.log.recovery.segment_recovery import checked_batches_in
from crabka.log.segment.segment import Segment
from crabka.protocol.error_codes import ErrorCode
from crabka.vfs import write_atomic

NO_LIMIT: Final = 1 << 31


class LogTiering(LogShrinking, LogDurability):
    """What tiering asks of a log."""

    def note_remote_offset(self, offset: int) -> None:
        """Take note that the remote tier holds everything up to `offset`, inclusive; -1 if nothing is known.

        It may be less than before: nothing leaves this disk for what is not there any more.
        """
        if self.is_tiered:
            self.highest_remote_offset = offset
            self._is_remote_offset_current = True

    def doubt_remote_offset(self) -> None:
        """Let nothing leave this disk for the remote tier until `note_remote_offset` is called again."""
        self._is_remote_offset_current = False

    @property
    def may_be_short(self) -> bool:
        """Whether the remote tier may hold records after the end of the log: durable ones may be missing here.

        So it is if the log was opened without records, or with an end below what its checkpoints know of, and nothing
        was appended since. A stop changes nothing: `checkpoint_high_watermark` keeps it.
        """
        return self._unproven_end is not None and self._unproven_end == self.log_end_offset and self.is_tiered

    @property
    def checkpoint_high_watermark(self) -> int:
        """The high watermark as it may be written down: while something is missing, every opening must find that."""
        known = super().checkpoint_high_watermark
        return max(known, self._lost_end) if self.may_be_short else known

    def trust_end(self) -> None:
        """Take note that nothing is missing at the end: the log is new, or was compared with the remote tier."""
        self._unproven_end = None

    def untiered(self) -> UntieredPart:
        """Return how much of the log is on this disk and not, or not to its end, in the remote tier."""
        end_offset = self.highest_remote_offset + 1
        sealed = [
            segment.size
            for index, segment in enumerate(self._segments)
            if segment is not self._active and self._segments.upper_bound(index, self.log_end_offset) > end_offset
        ]
        return UntieredPart(len(sealed), sum(sealed), self._active.size)

    def local_extents(self) -> list[SegmentExtent]:
        """Return which offsets lie on this disk, segment by segment, and how large they are."""
        return [
            SegmentExtent(segment.base_offset, self._segments.upper_bound(index, self.log_end_offset) - 1, segment.size)
            for index, segment in enumerate(self._segments)
            if segment.size
        ]

    # -- copying -------------------------------------------------------------------------------------------------

    def tierable_segments(self, from_offset: int, upper_offset: int, *, limit: int = NO_LIMIT) -> list[TierableSegment]:
        """Return the sealed segments that end in [from, upper), oldest first, at most `limit` of them.

        May read the end of index files. Before the files of one are used, `prepare_for_copy` makes them complete.
        """
        found: list[TierableSegment] = []
        with self._storage_errors():
            for index in range(self._segments.floor_index(from_offset), len(self._segments) - 1):
                end_offset = self._segments.upper_bound(index, self.log_end_offset) - 1
                if end_offset >= upper_offset or len(found) >= limit:
                    break
                if end_offset >= from_offset:
                    found.append(self._tierable(self._segments[index], end_offset))
        return found

    def _tierable(self, segment: Segment, end_offset: int) -> TierableSegment:
        return TierableSegment(
            base_offset=segment.base_offset,
            end_offset=end_offset,
            size_bytes=segment.size,
            max_timestamp_ms=segment.largest_timestamp(),
            log_path=segment.log_path,
            offset_index_path=segment.stem + INDEX_SUFFIX,
            time_index_path=segment.stem + TIME_INDEX_SUFFIX,
            producer_snapshot_path=self._snapshots.path(end_offset + 1),
            txn_index_path=segment.stem + TXN_INDEX_SUFFIX if segment.aborted() else None,
            is_flushed=self._is_flushed(segment, end_offset + 1),
        )

    def _is_flushed(self, segment: Segment, end: int) -> bool:
        """Return whether a sealed segment is durable, and with it the epochs and producers up to where it ends."""
        return end <= self.recovery_point and segment not in self._unsynced

    def has_segment(self, tierable: TierableSegment) -> bool:
        """Return whether a segment is still here as it was: neither cut nor removed."""
        return self._segment_of(tierable) is not None

    def _segment_of(self, tierable: TierableSegment) -> Segment | None:
        segment = self._segments[self._segments.floor_index(tierable.base_offset)]
        is_same = segment.log_path == tierable.log_path and segment.size == tierable.size_bytes
        return segment if is_same and not segment.is_active else None

    def prepare_for_copy(self, tierable: TierableSegment) -> bool:
        """Make the index files and the producer snapshot of a segment complete; return False if it is gone.

        They are already, unless they were lost or damaged: then they are built from the batches. Every batch is
        checked: what is damaged must not become the only copy. May wait for the disk and runs in any thread. Raises
        StorageError, and CorruptDataError for a damaged batch.
        """
        segment = self._segment_of(tierable)
        if segment is None:
            return False
        with self._storage_errors():
            self._require_whole(segment)
            segment.ensure_index_files()
            if not self._context.fs.exists(tierable.producer_snapshot_path):
                self._rebuild_snapshot(tierable.end_offset + 1)
        return True

    def _require_whole(self, segment: Segment) -> None:
        end = 0
        file = self._context.fs.open(segment.log_path, read_only=True)
        try:
            for position, header, _ in checked_batches_in(file, segment.size):
                end = position + header.size_in_bytes
        finally:
            file.close()
        if end != segment.size:
            raise CorruptDataError(segment.log_path, f"no whole batch at position {end}")

    def _rebuild_snapshot(self, offset: int) -> None:
        state = ProducerStateManager()
        known = self._snapshots.read_latest(0, offset - 1)
        start = known[0] if known else self._segments.first.base_offset
        state.load(known[1] if known else [], start)
        for segment in self._segments.from_offset(start):
            if segment.base_offset < offset:
                replay_segment(state, segment, start=start, end=offset)
        self._snapshots.write(offset, state.entries.values())

    # -- local retention -----------------------------------------------------------------------------------------

    def may_drop_tiered(self, now_ms: int) -> bool:
        """Return whether the oldest segment is in the remote tier, durable here as well, and past local retention."""
        if not self.copies_to_tier or len(self._segments) == 1 or self.is_held or not self._is_remote_offset_current:
            return False
        first, end = self._segments.first, self._segments.upper_bound(0, self.log_end_offset)
        # A follower hears of offsets in the tier before it has flushed them; epochs and producers would go with them.
        if end > min(self.high_watermark, self.highest_remote_offset + 1) or not self._is_flushed(first, end):
            return False
        with self._storage_errors():
            return self._is_past_local_retention(first, end, now_ms)

    def drop_oldest_tiered(self, now_ms: int) -> Segment | None:
        """Let the oldest segment leave this disk if `may_drop_tiered`, without moving the log start; return it.

        The owner has checkpointed the log start before, and calls `sync_names` before the next one goes: else a crash
        could bring a segment back without the one behind it.
        """
        if not self.may_drop_tiered(now_ms):
            return None
        with self._storage_errors():
            return self._drop_first(1, now_ms)[0]

    def sync_names(self) -> None:
        """Make created and deleted names of the log durable. Waits for the disk; runs in any thread."""
        with self._storage_errors():
            try:
                self._context.fs.fsync_dir(self.path)
            except FileNotFoundError:
                # A log that was deleted meanwhile has another name.
                if self._context.fs.exists(self.path):
                    raise

    def roll_if_past_local_retention(self, now_ms: int) -> bool:
        """Seal an active segment that is the only one and past local retention, so that it can be copied and go."""
        active = self._active
        due = (
            self.copies_to_tier
            and len(self._segments) == 1
            and active.size > 0
            and self._pending is None
            and not self.is_held
            and self.high_watermark >= self.log_end_offset
        )
        with self._storage_errors():
            due = due and self._is_past_local_retention(active, self.log_end_offset, now_ms)
        if due:
            self._roll(now_ms)
        return due

    def _is_past_local_retention(self, segment: Segment, end_offset: int, now_ms: int) -> bool:
        limit_bytes, limit_ms = self.config.effective_local_retention_bytes, self.config.effective_local_retention_ms
        tests = []
        if limit_bytes >= 0:
            tests.append(retention.expired_by_size(self.size_bytes, limit_bytes))
        if limit_ms >= 0:
            tests.append(retention.expired_by_time(now_ms, limit_ms))
        return any(expired(segment, end_offset) for expired in tests)

    # -- following a leader that has the old records in the tier only -----------------------------------------------

    def rebuild_from_remote(
        self,
        start_offset: int,
        *,
        log_start_offset: int,
        epochs: Sequence[tuple[int, int]],
        producer_snapshot: bytes,
        now_ms: int = 0,
    ) -> None:
        """Drop everything and begin anew, empty, at `start_offset`, with the epochs and producers that lead up to it.

        Durable on return, in an order that a crash may interrupt anywhere:

        1. the owner has checkpointed a recovery point of 0 (`announce_truncation`), so that the next opening checks
           whatever segments come back, and keeps only what follows one another
        2. the old segments go; a log that has no segment begins at its log start and is rebuilt once more
        3. the producer snapshot and the epochs are written; both mean nothing without a segment behind them
        4. the new segment appears: from here on the log is what was asked for
        5. the owner checkpoints log start and recovery point; an older log start is one that the leader had

        `LogManager.rebuild_from_remote` takes all steps. Raises CorruptDataError before anything is touched if the
        snapshot is damaged and OperationError if the log is not tiered, StorageError when the disk fails.
        """
        require(self._pending is None, f"{self.topic}-{self.partition}: a rebuild overtakes an append")
        if not self.is_tiered:
            raise OperationError(
                ErrorCode.offset_moved_to_tiered_storage, f"{self.topic}-{self.partition} is not tiered on this node"
            )
        decode_snapshot(producer_snapshot, self._snapshots.path(start_offset))
        fs = self._context.fs
        with self._storage_errors():
            # Its leader epochs must not come after those that are written here.
            self._join_flush()
            self._delete_segments(self._segments.drop_from(0), now_ms)
            self._snapshots.remove_outside(0, -1)
            fs.fsync_dir(self.path)
            self.leader_epochs.clear()
            for epoch, offset in epochs:
                self.leader_epochs.assign(epoch, offset)
            self.leader_epochs.truncate_from_end(start_offset)
            self.leader_epochs.truncate_from_start(log_start_offset)
            self._snapshots.install(start_offset, producer_snapshot)
            write_atomic(fs, f"{self.path}/{LEADER_EPOCH_CHECKPOINT}", self.leader_epochs.encode())
            self.leader_epochs.note_saved(self.leader_epochs.version)
            self._new_segment(start_offset, now_ms)
            self.log_start_offset, self.log_end_offset = log_start_offset, start_offset
            # Nothing below is on this disk, so nothing below needs a flush.
            self.recovery_point = start_offset
            self._after_truncation(start_offset)
            fs.fsync_dir(self.log_dir)
            self.set_high_watermark(start_offset)
