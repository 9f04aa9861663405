"""The tiered side of a partition log: what the remote tier may copy, and restarting after what it holds (KIP-405).

The highest offset of the remote tier is set by the caller. Does not know storages or remote metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from crabka.errors import CorruptDataError, OperationError, require
from crabka.formats.file_names import INDEX_SUFFIX, LEADER_EPOCH_CHECKPOINT, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from crabka.log.partition.tierable import SegmentExtent, TierableSegment, UntieredPart
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.producers.snapshots import decode_snapshot
from crabka.log.recovery.replay import replay_segment
from crabka.log.recovery.segment_recovery import checked_batches_in
from crabka.protocol.error_codes import ErrorCode
from crabka.vfs import write_atomic

if TYPE_CHECKING:
    from crabka.log.partition.durability import LogDurability
    from crabka.log.partition.state import LogState
    from crabka.log.partition.truncation import LogTruncation
    from crabka.log.segment.segment import Segment

NO_LIMIT: Final = 1 << 31


class LogTiering:
    """The log as the remote tier sees it."""

    __slots__ = ("_durability", "_state", "_truncation")

    def __init__(self, state: LogState, durability: LogDurability, truncation: LogTruncation) -> None:
        self._state = state
        self._durability = durability
        self._truncation = truncation

    @property
    def highest_remote_offset(self) -> int:
        """The last offset that the remote tier is known to hold without a gap below it, -1 if nothing is known."""
        return self._state.highest_remote_offset

    def note_remote_offset(self, offset: int) -> None:
        """Note that the remote tier holds everything up to `offset`, inclusive; -1 if nothing is known.

        It may be less than before: segments stay on this disk if the tier has lost them.
        """
        if self._state.is_tiered:
            self._state.highest_remote_offset = offset
            self._state.is_remote_offset_current = True

    def doubt_remote_offset(self) -> None:
        """Let no segment leave this disk for the remote tier until `note_remote_offset` is called again."""
        self._state.is_remote_offset_current = False

    def untiered(self) -> UntieredPart:
        """Return how much of the log is on this disk and not, or not to its end, in the remote tier."""
        state = self._state
        end_offset = state.highest_remote_offset + 1
        sealed = [
            segment.size
            for index, segment in enumerate(state.segments)
            if segment is not state.active and state.segments.upper_bound(index, state.log_end_offset) > end_offset
        ]
        return UntieredPart(len(sealed), sum(sealed), state.active.size)

    def local_extents(self) -> list[SegmentExtent]:
        """Return which offsets are on this disk, segment by segment, and how large they are."""
        segments, end = self._state.segments, self._state.log_end_offset
        return [
            SegmentExtent(segment.base_offset, segments.upper_bound(index, end) - 1, segment.size)
            for index, segment in enumerate(segments)
            if segment.size
        ]

    # -- copying -------------------------------------------------------------------------------------------------

    def tierable_segments(self, from_offset: int, upper_offset: int, *, limit: int = NO_LIMIT) -> list[TierableSegment]:
        """Return the sealed segments that end in [from, upper), oldest first, at most `limit` of them.

        May read the end of index files. Before the files of one are used, `prepare_for_copy` makes them complete.
        """
        state, segments = self._state, self._state.segments
        found: list[TierableSegment] = []
        with state.storage_errors():
            for index in range(segments.floor_index(from_offset), len(segments) - 1):
                end_offset = segments.upper_bound(index, state.log_end_offset) - 1
                if end_offset >= upper_offset or len(found) >= limit:
                    break
                if end_offset >= from_offset:
                    found.append(self._tierable(segments[index], end_offset))
        return found

    def _tierable(self, segment: Segment, end_offset: int) -> TierableSegment:
        state = self._state
        return TierableSegment(
            base_offset=segment.base_offset,
            end_offset=end_offset,
            size_bytes=segment.size,
            max_timestamp_ms=segment.largest_timestamp(),
            log_path=segment.log_path,
            offset_index_path=segment.stem + INDEX_SUFFIX,
            time_index_path=segment.stem + TIME_INDEX_SUFFIX,
            producer_snapshot_path=state.snapshots.path(end_offset + 1),
            txn_index_path=segment.stem + TXN_INDEX_SUFFIX if segment.aborted() else None,
            is_flushed=state.is_flushed(segment, end_offset + 1),
        )

    def has_segment(self, tierable: TierableSegment) -> bool:
        """Return whether a segment is still here as it was: neither cut nor removed."""
        return self._segment_of(tierable) is not None

    def _segment_of(self, tierable: TierableSegment) -> Segment | None:
        segment = self._state.segments.holding(tierable.base_offset)
        is_same = segment.log_path == tierable.log_path and segment.size == tierable.size_bytes
        return segment if is_same and not segment.is_active else None

    def prepare_for_copy(self, tierable: TierableSegment) -> bool:
        """Make the index files and the producer snapshot of a segment complete; return False if it is gone.

        They are already, unless they were lost or damaged: then they are built from the batches. Every batch is
        checked: a damaged one must not become the only copy. May wait for the disk and runs in any thread. Raises
        StorageError, and CorruptDataError for a damaged batch.
        """
        segment = self._segment_of(tierable)
        if segment is None:
            return False
        state = self._state
        with state.storage_errors():
            self._require_whole(segment)
            segment.ensure_index_files()
            if not state.context.fs.exists(tierable.producer_snapshot_path):
                self._rebuild_snapshot(tierable.end_offset + 1)
        return True

    def _require_whole(self, segment: Segment) -> None:
        end = 0
        file = self._state.context.fs.open(segment.log_path, read_only=True)
        try:
            for position, header, _ in checked_batches_in(file, segment.size):
                end = position + header.size_in_bytes
        finally:
            file.close()
        if end != segment.size:
            raise CorruptDataError(segment.log_path, f"no whole batch at position {end}")

    def _rebuild_snapshot(self, offset: int) -> None:
        snapshots, segments = self._state.snapshots, self._state.segments
        producers = ProducerStateManager()
        known = snapshots.read_latest(0, offset - 1)
        start = known[0] if known else segments.first.base_offset
        producers.load(known[1] if known else [], start)
        for segment in segments.from_offset(start):
            if segment.base_offset < offset:
                replay_segment(producers, segment, start=start, end=offset)
        snapshots.write(offset, producers.entries.values())

    # -- following a leader that has the old records in the tier only --------------------------------------------

    def rebuild_from_remote(
        self,
        start_offset: int,
        *,
        log_start_offset: int,
        epochs: Sequence[tuple[int, int]],
        producer_snapshot: bytes,
        now_ms: int = 0,
    ) -> None:
        """Drop everything and restart, empty, at `start_offset`, with the epochs and producers of what is before it.

        Durable on return, in an order that a crash may interrupt anywhere:

        1. the owner has checkpointed a recovery point of 0 (`LogTruncation.announce`), so that the next opening checks
           all segments that come back, and keeps only those that follow one another
        2. the old segments go; a log that has no segment begins at its log start and is rebuilt once more
        3. the producer snapshot and the epochs are written; both mean nothing without a segment after them
        4. the new segment appears: from here on the log is complete
        5. the owner checkpoints log start and recovery point; an older log start is one that the leader had

        `LogManager.rebuild_from_remote` takes all steps. Raises CorruptDataError before anything is changed if the
        snapshot is damaged and OperationError if the log is not tiered, StorageError when the disk fails.
        """
        state, epoch_cache = self._state, self._state.leader_epochs
        require(state.pending is None, f"{state.topic}-{state.partition}: a rebuild overtakes an append")
        if not state.is_tiered:
            raise OperationError(
                ErrorCode.offset_moved_to_tiered_storage, f"{state.topic}-{state.partition} is not tiered on this node"
            )
        decode_snapshot(producer_snapshot, state.snapshots.path(start_offset))
        fs = state.context.fs
        with state.storage_errors():
            # Its leader epochs must not be written after these.
            self._durability.join_flush()
            state.delete_segments(state.segments.drop_from(0), now_ms)
            state.snapshots.remove_outside(0, -1)
            fs.fsync_dir(state.path)
            epoch_cache.clear()
            for epoch, offset in epochs:
                epoch_cache.assign(epoch, offset)
            epoch_cache.truncate_from_end(start_offset)
            epoch_cache.truncate_from_start(log_start_offset)
            state.snapshots.install(start_offset, producer_snapshot)
            write_atomic(fs, f"{state.path}/{LEADER_EPOCH_CHECKPOINT}", epoch_cache.encode())
            epoch_cache.note_saved(epoch_cache.version)
            state.new_segment(start_offset, now_ms)
            state.log_start_offset, state.log_end_offset = log_start_offset, start_offset
            # Nothing below is on this disk, so nothing below needs a flush.
            state.recovery_point = start_offset
            self._truncation.complete(start_offset)
            fs.fsync_dir(state.log_dir)
            state.set_high_watermark(start_offset)
