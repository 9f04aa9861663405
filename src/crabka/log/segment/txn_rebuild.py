"""Building the transaction index of one segment from the log, when its file is damaged or lost.

The producers before the segment come from the newest whole producer snapshot below it and the batches between. Every
batch is checked by its CRC. Runs in any thread on segments that do not change meanwhile, and writes nothing.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, NamedTuple

from crabka.formats.transaction_index import AbortedTransaction
from crabka.log.producers.producer_state import ProducerStateManager
from crabka.log.recovery.replay import replay_batch
from crabka.log.recovery.segment_recovery import checked_batches_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.log.producers.snapshots import ProducerSnapshots
    from crabka.log.segment.segment import Segment
    from crabka.ports import FileSystem


class RebuiltAborted(NamedTuple):
    """The transaction index of a segment as the log has it."""

    entries: list[AbortedTransaction]
    # Where the batches that were read end, in the segment.
    end_position: int
    # Why entries may be missing: a batch that had to be read is damaged. Empty if all are there.
    gap: str = ""


def rebuild_aborted(
    fs: FileSystem, segments: Sequence[Segment], snapshots: ProducerSnapshots, segment: Segment
) -> RebuiltAborted:
    """Return the aborted transactions whose markers are in `segment`, one of the `segments` of a log, in order."""
    bases = [each.base_offset for each in segments]
    first = bases[0]
    state = ProducerStateManager()
    found = snapshots.peek_latest(first, segment.base_offset)
    start = found[0] if found else first
    state.load(found[1] if found else [], start)
    gap, rebuilt = "", RebuiltAborted([], 0)
    for each in segments[max(bisect.bisect_right(bases, start) - 1, 0) :]:
        if each.base_offset <= segment.base_offset:
            rebuilt = replay_aborted(fs, state, each, start=start)
            gap = gap or rebuilt.gap
    return rebuilt._replace(gap=gap)


def replay_aborted(fs: FileSystem, state: ProducerStateManager, segment: Segment, *, start: int = 0) -> RebuiltAborted:
    """Take the batches of a segment from `start` on into the producer state; return the transactions aborted there."""
    aborted: list[AbortedTransaction] = []
    size, end = segment.size, 0
    file = fs.open(segment.log_path, read_only=True)
    try:
        for position, header, batch in checked_batches_in(file, size):
            end = position + header.size_in_bytes
            if header.producer_id < 0 or header.last_offset < start:
                continue
            completed = replay_batch(state, batch, header)
            if completed is not None and completed.aborted:
                stable = state.last_stable_offset_after(completed)
                aborted.append(
                    AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
                )
    finally:
        file.close()
    gap = f"{segment.log_path} has no whole batch at position {end}" if end != size else ""
    return RebuiltAborted(aborted, end, gap)
