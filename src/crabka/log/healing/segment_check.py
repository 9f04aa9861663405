"""The check of one segment against itself: batches, indexes, aborted transactions and leader epochs.

Runs in threads in small steps, on a choice that was made on the loop, and writes nothing: what it found is judged and
repaired on the loop (`partition.healing`). Batches are the truth, everything else follows from them.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.errors import CorruptDataError
from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.healing.damage import DamagedRange
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.recovery.replay import replay_batch
from crabka.log.segment.batch_walk import BatchWalk, Gap, OffsetRules
from crabka.log.segment.indexes import IndexBuilder, SegmentIndexes, read_index_files

if TYPE_CHECKING:
    from crabka.log.producers.snapshots import ProducerSnapshots
    from crabka.log.segment.batch_walk import WholeBatch
    from crabka.log.segment.segment import Segment
    from crabka.ports import FileSystem
    from crabka.records.header import BatchHeader

STEP_BYTES: Final = 256 * 1024
# Small batches cost more time per byte.
STEP_BATCHES: Final = 256
# An index with so much fewer entries than the batches call for has lost some.
_MIN_ENTRY_SHARE: Final = 0.5


class CheckTarget(NamedTuple):
    """What a check works on, chosen at one moment on the loop."""

    fs: FileSystem
    segment: Segment
    size: int
    rules: OffsetRules
    # All segments of the log up to this one, for the producers that come from before.
    segments: Sequence[Segment]
    snapshots: ProducerSnapshots
    is_sealed: bool
    is_compacted: bool
    truncations: int


class LogCheckFindings(NamedTuple):
    """What a check found."""

    damaged: list[DamagedRange]
    # Both indexes as the batches call for them, if a file is wrong.
    indexes: SegmentIndexes | None
    indexes_reason: str
    # None if a gap hides what is known of transactions.
    aborted: list[AbortedTransaction] | None
    # Why the transaction index is wrong, empty if it is not.
    aborted_reason: str
    # The leader epochs of the batches with their first offsets.
    epochs: list[tuple[int, int]]


class SegmentCheck:
    """One check. `findings` are there when all steps are done. Raises OSError from its steps."""

    def __init__(self, target: CheckTarget) -> None:
        self._target = target
        self._state: ProducerStateManager | None = ProducerStateManager()
        self.findings: LogCheckFindings | None = None

    def steps(self) -> Iterator[int]:
        """Check; yields the bytes that each step has read."""
        target = self._target
        yield from self._replay_earlier()
        indexes = IndexCheck(target.fs, target.segment, target.size, is_due=target.is_sealed and target.size > 0)
        aborted: list[AbortedTransaction] = []
        damaged: list[DamagedRange] = []
        epochs: list[tuple[int, int]] = []
        for size, piece in self._walk(target.segment, target.size, target.rules):
            if isinstance(piece, Gap):
                damaged.append(DamagedRange(target.segment.base_offset, *piece))
                self._state = None
            elif piece is not None:
                header = piece.header
                indexes.add(piece.position, header)
                if not epochs or epochs[-1][0] != header.partition_leader_epoch:
                    epochs.append((header.partition_leader_epoch, header.base_offset))
                self._replay(piece, aborted)
            if size:
                yield size
        rebuilt, reason = (None, "") if damaged else indexes.finish()
        known = aborted if self._state is not None else None
        aborted_reason = "" if known is None else self._aborted_reason(known)
        self.findings = LogCheckFindings(damaged, rebuilt, reason, known, aborted_reason, epochs)

    def _aborted_reason(self, rebuilt: list[AbortedTransaction]) -> str:
        """Return what is wrong with the transaction index.

        That of the active segment is in memory. Cleaning keeps entries whose batches it has removed, and with these it
        removes what last stable offsets are computed from.
        """
        target = self._target
        if not target.is_sealed:
            return "batches that end aborted transactions were damaged" if target.segment.aborts.is_unsure else ""
        try:
            found = target.segment.aborts.read()
        except CorruptDataError as error:
            return error.message
        known = {entry[:3] for entry in found}
        wanted = {entry[:3] for entry in rebuilt}
        if target.segment.aborts.is_unsure or wanted - known or (known - wanted and not target.is_compacted):
            return f"{len(found)} aborted transactions, and {len(rebuilt)} in the log"
        if not target.is_compacted and set(found) != set(rebuilt):
            return "last stable offsets differ from those of the log"
        return ""

    def _replay_earlier(self) -> Iterator[int]:
        """Bring the producers to where the segment begins: from the newest snapshot, and the batches after it."""
        target, state = self._target, self._state
        if state is None:
            return
        base = target.segment.base_offset
        bases = [each.base_offset for each in target.segments]
        found = target.snapshots.peek_latest(bases[0], base)
        start = found[0] if found else bases[0]
        state.load(found[1] if found else [], start)
        if start == base:
            return
        first = max(bisect.bisect_right(bases, start) - 1, 0)
        for segment, end in zip(target.segments[first:], bases[first + 1 :], strict=False):
            rules = target.rules._replace(base_offset=segment.base_offset, end_offset=end)
            for size, piece in self._walk(segment, segment.size, rules):
                if isinstance(piece, Gap):
                    self._state = None
                    return
                if piece is not None and piece.header.last_offset >= start:
                    self._replay(piece, [])
                if size:
                    yield size

    def _walk(self, segment: Segment, size: int, rules: OffsetRules) -> Iterator[tuple[int, WholeBatch | Gap | None]]:
        """Yield the pieces of a segment, and with some of them the bytes since the last step."""
        file = self._target.fs.open(segment.log_path, read_only=True)
        try:
            done = count = 0
            for piece in BatchWalk(file, size, rules).pieces():
                done += piece.end - piece.position
                count += 1
                if done >= STEP_BYTES or count >= STEP_BATCHES:
                    yield max(done, 1), piece
                    done = count = 0
                else:
                    yield 0, piece
            if done:
                yield done, None
        finally:
            file.close()

    def _replay(self, piece: WholeBatch, aborted: list[AbortedTransaction]) -> None:
        state, header = self._state, piece.header
        if state is None or header.producer_id < 0:
            return
        completed = replay_batch(state, piece.data, header)
        if completed is not None and completed.aborted:
            stable = state.last_stable_offset_after(completed)
            aborted.append(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )


class IndexCheck:
    """Compares the index files of a sealed segment with its batches, entry by entry."""

    def __init__(self, fs: FileSystem, segment: Segment, size: int, *, is_due: bool) -> None:
        self._is_due = is_due
        found = read_index_files(fs, segment.stem, segment.base_offset, size) if is_due else None
        self._builder = IndexBuilder(segment.base_offset, segment.index_interval_bytes)
        self._reason = "an index file is missing or malformed" if self._is_due and found is None else ""
        self._found = found
        self._offsets = iter(found.offsets.entries() if found else ())
        self._times = iter(found.times.entries() if found else ())
        self._next_offset = next(self._offsets, None)
        self._next_time = next(self._times, None)
        self._largest_timestamp = -1

    def add(self, position: int, header: BatchHeader) -> None:
        """Take in the next batch."""
        if not self._is_due:
            return
        self._builder.add(position, header)
        self._largest_timestamp = max(self._largest_timestamp, header.max_timestamp)
        entry = self._next_offset
        if entry is not None and entry[1] <= position:
            if entry != (header.last_offset, position):
                self._reason = self._reason or f"the offset index has {entry}, where no batch is"
            self._next_offset = next(self._offsets, None)
        time = self._next_time
        if time is not None and time.offset <= header.last_offset:
            if time.offset < header.base_offset or time.timestamp != header.max_timestamp:
                self._reason = self._reason or f"the time index has {tuple(time)}, which no batch has"
            self._next_time = next(self._times, None)

    def finish(self) -> tuple[SegmentIndexes | None, str]:
        """Return the indexes as they must be and why, or None if the files are right."""
        rebuilt, found = self._builder.finish(), self._found
        if not self._is_due or not len(rebuilt.times):
            # If no batch has a timestamp, the files do not show whether they are whole.
            return None, ""
        if found is not None and not self._reason:
            if self._next_offset is not None or self._next_time is not None:
                self._reason = "an index has entries after the last batch"
            elif found.times.last.timestamp < self._largest_timestamp:
                self._reason = "the time index ends before the largest timestamp"
            elif len(found.offsets) < len(rebuilt.offsets) * _MIN_ENTRY_SHARE:
                self._reason = f"the offset index has {len(found.offsets)} entries of {len(rebuilt.offsets)}"
        return (rebuilt, self._reason) if self._reason else (None, "")
