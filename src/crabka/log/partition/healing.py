"""The healing side of a partition log: what a check reads, and repairs of what it found, while the log is in use.

A check reads in a thread, from a target chosen on the loop (`segment_check`). Its findings are applied on the loop if
the log has not changed since. Batches are written back in place, byte by byte: the file, the offsets and all positions
stay the same, and readers see the damaged bytes or the right ones. Files that follow from the batches are rebuilt.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.formats.file_names import INDEX_SUFFIX, PARTITION_METADATA, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from crabka.formats.partition_metadata import encode_partition_metadata, is_damaged_metadata
from crabka.formats.transaction_index import WRONG_INDEX
from crabka.log.healing.segment_check import CheckTarget, LogCheckFindings
from crabka.log.healing.small_files_check import SmallFilesFindings, SmallFilesTarget
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.producers.snapshots import encode_snapshot
from crabka.log.recovery.replay import replay_segment
from crabka.log.segment.batch_walk import OffsetRules
from crabka.vfs import read_file, write_atomic, write_synced

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable

    from crabka.log.healing.damage import DamagedRange
    from crabka.log.partition.state import LogState
    from crabka.log.producers.snapshots import ProducerSnapshots
    from crabka.log.segment.indexes import SegmentIndexes
    from crabka.log.segment.segment import Segment
    from crabka.ports import FileSystem

logger = logging.getLogger(__name__)

# No segment begins there.
_NEVER_NOTED: Final = -1


class Repairs(NamedTuple):
    """What was repaired at once, as texts for the node's log, and what remains to be done in a thread."""

    done: list[str]
    # Files to sync.
    paths: list[str]


class LogHealing:
    """The log as the healer sees it."""

    __slots__ = ("_state", "damage")

    def __init__(self, state: LogState) -> None:
        self._state = state
        # What is known to be damaged.
        self.damage = state.damage

    @property
    def is_damaged(self) -> bool:
        """Whether any damage is known."""
        return self._state.is_damaged

    def segment_at(self, base_offset: int) -> Segment | None:
        """Return the segment with this base offset, None if there is none."""
        segment = self.segment_of(base_offset)
        return segment if segment.base_offset == base_offset else None

    def segment_of(self, offset: int) -> Segment:
        """Return the segment that holds an offset."""
        return self._state.segments.holding(offset)

    def adopt(self, topic_id: uuid.UUID) -> bool:
        """Return whether the log belongs to the topic with this id, the one that the metadata has under its name.

        A damaged `partition.metadata` that must have held this id is rewritten. Raises StorageError.
        """
        state = self._state
        if state.topic_id == topic_id:
            return True
        fs, path = state.context.fs, f"{state.path}/{PARTITION_METADATA}"
        with state.storage_errors():
            try:
                content = read_file(fs, path)
            except FileNotFoundError:
                content = b""
            if not content.strip(b"\0"):
                # The file of a log that was never flushed.
                return state.topic_id is None
            if not is_damaged_metadata(content, topic_id):
                return False
            logger.warning("%s is damaged: rewritten with topic id %s", path, topic_id)
            write_atomic(fs, path, encode_partition_metadata(topic_id))
        state.topic_id = topic_id
        return True

    def report_damage_at(self, offset: int, reason: str) -> None:
        """Request a check of the segment that holds an offset."""
        state = self._state
        state.context.report_damage(state.topic_partition, self.segment_of(offset).base_offset, reason)

    # -- checking ------------------------------------------------------------------------------------------------

    def begin_check(self, base_offset: int) -> CheckTarget | None:
        """Return the input of a check of a segment, None if the segment is gone."""
        state, segments = self._state, self._state.segments
        index = segments.floor_index(base_offset)
        segment = segments[index]
        if segment.base_offset != base_offset:
            return None
        return CheckTarget(
            fs=state.context.fs,
            segment=segment,
            size=segment.size,
            rules=OffsetRules(
                base_offset, segments.upper_bound(index, state.log_end_offset), state.leader_epochs.latest
            ),
            segments=list(segments)[: index + 1],
            snapshots=state.snapshots,
            is_sealed=not segment.is_active,
            is_compacted=state.config.compact,
            truncations=state.truncations,
        )

    def begin_small_check(self) -> SmallFilesTarget:
        """Return the input of a check of the files beside the segments."""
        state = self._state
        return SmallFilesTarget(
            fs=state.context.fs,
            directory=state.path,
            epochs=None if state.leader_epochs.dirty else state.leader_epochs.entries,
            topic_id=state.topic_id,
            snapshots=[(offset, state.snapshots.path(offset)) for offset in state.snapshots.offsets],
            aborted_notes=dict(state.aborted_notes),
        )

    def is_current(self, target: CheckTarget) -> bool:
        """Return whether a segment is still the one that was checked."""
        return (
            self.segment_at(target.segment.base_offset) is target.segment
            and target.truncations == self._state.truncations
            and target.is_sealed != target.segment.is_active
        )

    # -- repairs -------------------------------------------------------------------------------------------------

    def take_findings(self, target: CheckTarget, findings: LogCheckFindings) -> Repairs:
        """Note what is damaged, and repair what follows from the batches; return these repairs.

        Nothing is done if the segment has changed since. The index files come from `write_rebuilt_indexes`.
        """
        state = self._state
        repairs = Repairs([], [])
        if not self.is_current(target):
            return repairs
        segment = target.segment
        state.damage.keep(state.segments.bases)
        state.damage.replace(segment.base_offset, findings.damaged)
        state.is_damaged = len(state.damage) > 0
        state.tail_hints.clear()
        with state.storage_errors():
            if findings.indexes is not None:
                self._install_indexes(segment)
                repairs.done.append(f"{segment.stem}{INDEX_SUFFIX} and {TIME_INDEX_SUFFIX}: {findings.indexes_reason}")
            if findings.aborted_reason and findings.aborted is not None:
                self._install_aborted(target, findings)
                repairs.done.append(f"{segment.stem}{TXN_INDEX_SUFFIX}: {findings.aborted_reason}")
                repairs.paths.append(segment.stem + TXN_INDEX_SUFFIX)
            if not findings.damaged and (wrong := self._wrong_epoch(findings.epochs)):
                self._install_epochs(target, findings)
                repairs.done.append(f"{state.path}: {wrong}")
        return repairs

    def _install_indexes(self, segment: Segment) -> None:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._state.context.fs.rename(f"{segment.stem}{suffix}.tmp", segment.stem + suffix)
        segment.forget_cached()
        self._state.name_changes += 1

    def _install_aborted(self, target: CheckTarget, findings: LogCheckFindings) -> None:
        segment, known, end = target.segment, findings.aborted or [], target.rules.end_offset
        later = [entry for entry in segment.aborted() if entry.last_offset >= end] if segment.is_active else []
        segment.aborts.replace([*known, *later])
        self._state.write_aborted_note()
        self._state.name_changes += 1

    def _wrong_epoch(self, epochs: Iterable[tuple[int, int]]) -> str:
        for epoch, offset in epochs:
            known = self._state.leader_epochs.lineage.epoch_at(offset)
            if epoch >= 0 and offset >= self._state.log_start_offset and known != epoch:
                return f"the leader epoch at offset {offset} was known as {known}, and is {epoch}"
        return ""

    def _install_epochs(self, target: CheckTarget, findings: LogCheckFindings) -> None:
        base, end = target.segment.base_offset, target.rules.end_offset
        epochs, start = self._state.leader_epochs, self._state.log_start_offset
        known = epochs.entries
        mended = [(epoch, max(offset, start)) for epoch, offset in findings.epochs if epoch >= 0]
        before = [each for each in known if each[1] < base and (not mended or each[0] < mended[0][0])]
        epochs.clear()
        for epoch, offset in [*before, *mended, *(each for each in known if each[1] >= end)]:
            epochs.assign(epoch, offset)

    def rewrite_small_files(self, findings: SmallFilesFindings) -> list[Callable[[], None]]:
        """Return functions that rewrite wrong files, in any thread; the leader epochs go with the next flush."""
        jobs: list[Callable[[], None]] = []
        state, fs = self._state, self._state.context.fs
        if findings.aborted_note:
            state.aborted_notes = {_NEVER_NOTED: WRONG_INDEX}
            with state.storage_errors():
                state.write_aborted_note()
        if findings.epochs:
            state.leader_epochs.note_unsaved()
        if findings.metadata and state.topic_id is not None:
            content = encode_partition_metadata(state.topic_id)
            jobs.append(partial(write_atomic, fs, f"{state.path}/{PARTITION_METADATA}", content))
        segments = list(state.segments)
        jobs += [partial(_rewrite_snapshot, fs, state.snapshots, segments, offset) for offset in findings.snapshots]
        return jobs

    def patch(self, target: CheckTarget, damaged: DamagedRange, data: bytes) -> bool:
        """Write whole batches over a damaged range of the same size; return False if the log has changed.

        The caller has checked the batches and syncs the segment afterwards. Runs on the loop without waiting, so no
        append, truncation or swap comes between check and write; after a crash the range is damaged at worst.
        """
        if not self.is_current(target) or len(data) != damaged.end_position - damaged.position:
            return False
        with self._state.storage_errors():
            file = self._state.context.fs.open(target.segment.log_path)
            try:
                file.pwritev([data], damaged.position)
            finally:
                file.close()
        return True


def _rewrite_snapshot(fs: FileSystem, snapshots: ProducerSnapshots, segments: list[Segment], offset: int) -> None:
    """Write a producer snapshot that follows from the batches and the snapshots before it."""
    state = ProducerStateManager()
    known = snapshots.peek_latest(0, offset - 1)
    start = known[0] if known else segments[0].base_offset
    state.load(known[1] if known else [], start)
    for segment, following in zip_longest(segments, segments[1:]):
        if segment.base_offset < offset and (following is None or following.base_offset > start):
            replay_segment(state, segment, start=start, end=offset)
    write_atomic(fs, snapshots.path(offset), encode_snapshot(state.entries.values()))


def write_rebuilt_indexes(fs: FileSystem, segment: Segment, indexes: SegmentIndexes) -> None:
    """Write index files beside those in place, durably; `take_findings` renames them. For a thread."""
    for suffix, content in ((INDEX_SUFFIX, indexes.offsets.encode()), (TIME_INDEX_SUFFIX, indexes.times.encode())):
        write_synced(fs, f"{segment.stem}{suffix}.tmp", content)


def sync_files(fs: FileSystem, paths: Iterable[str]) -> None:
    """Sync those of the files that still exist. For a thread; raises OSError."""
    for path in paths:
        try:
            file = fs.open(path, read_only=True)
        except FileNotFoundError:
            continue
        try:
            file.fsync()
        finally:
            file.close()
