"""The check of the segments and snapshots of a metadata log while it is in use.

Runs in threads in small steps, on a list of files taken while the log did not change, and writes nothing. Findings
count only if the log was neither truncated nor restarted meanwhile; later appends are left to the next check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import CorruptDataError
from crabka.log.healing.segment_check import IndexCheck
from crabka.quorum.log.reader import batch_fault
from crabka.quorum.log.survey import read_segment
from crabka.quorum.snapshots.files import check_snapshot, list_snapshots
from crabka.quorum.snapshots.set_aside import DamagedSnapshot

if TYPE_CHECKING:
    from crabka.log.partition.leader_epochs import LeaderEpochCache
    from crabka.log.segment.indexes import SegmentIndexes
    from crabka.log.segment.segment import Segment
    from crabka.ports import FileSystem

STEP_BYTES: Final = 256 * 1024
# Small batches cost more time per byte.
STEP_BATCHES: Final = 256


class SegmentTarget(NamedTuple):
    """A segment with its size when it was listed."""

    segment: Segment
    size: int
    end_offset: int
    is_sealed: bool


class SegmentsTarget(NamedTuple):
    """All segments of a log at one moment."""

    fs: FileSystem
    segments: Sequence[SegmentTarget]
    epochs: LeaderEpochCache
    # `MetadataLog.changes` at that moment.
    changes: int


class DamagedSegment(NamedTuple):
    """A segment with damaged batches from `offset` on."""

    segment: Segment
    offset: int
    # Where the segment ends.
    end_offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.segment.log_path} from offset {self.offset} on: {self.reason}"


class WrongIndexes(NamedTuple):
    """A valid segment with wrong index files, and their correct content."""

    segment: Segment
    indexes: SegmentIndexes
    reason: str

    def __str__(self) -> str:
        return f"indexes of {self.segment.log_path}: {self.reason}"


class MetadataCheck:
    """One check. Its findings are complete after the last step. Steps raise OSError."""

    def __init__(self, target: SegmentsTarget, directory: str) -> None:
        self._target = target
        self._directory = directory
        self.segments: list[DamagedSegment] = []
        self.snapshots: list[DamagedSnapshot] = []
        self.indexes: list[WrongIndexes] = []

    @property
    def changes(self) -> int:
        """The value of `MetadataLog.changes` for which the findings count."""
        return self._target.changes

    def steps(self) -> Iterator[int]:
        """Check everything; yields the bytes that each step has read."""
        for each in self._target.segments:
            try:
                yield from self._check_segment(each)
            except FileNotFoundError:
                # Removed because a snapshot covers it.
                continue
        fs = self._target.fs
        for snapshot in list_snapshots(fs, self._directory):
            path = f"{self._directory}/{snapshot.file_name}"
            try:
                yield check_snapshot(fs, path, snapshot.epoch)
            except CorruptDataError as error:
                self.snapshots.append(DamagedSnapshot(snapshot, path, error.message))
                yield 1
            except FileNotFoundError:
                continue

    def _check_segment(self, target: SegmentTarget) -> Iterator[int]:
        segment, expected, position = target.segment, target.segment.base_offset, 0
        indexes = IndexCheck(self._target.fs, segment, target.size, is_due=target.is_sealed and target.size > 0)
        done = count = 0
        for batch in read_segment(self._target.fs, segment.log_path, target.size):
            fault = batch_fault(batch.data, 0, batch.header, expected, self._target.epochs)
            if fault:
                self.segments.append(DamagedSegment(segment, expected, target.end_offset, fault))
                return
            indexes.add(position, batch.header)
            expected, position = batch.header.next_offset, position + len(batch.data)
            done, count = done + len(batch.data), count + 1
            if done >= STEP_BYTES or count >= STEP_BATCHES:
                yield done
                done = count = 0
        if position != target.size or expected != target.end_offset:
            reason = f"no valid batch at position {position} of {target.size}"
            self.segments.append(DamagedSegment(segment, expected, target.end_offset, reason))
            return
        rebuilt, reason = indexes.finish()
        if rebuilt is not None:
            self.indexes.append(WrongIndexes(segment, rebuilt, reason))
        yield max(done, 1)
