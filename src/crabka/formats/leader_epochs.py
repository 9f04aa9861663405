"""Leader epochs of a history: which epoch wrote which offsets (Kafka's LeaderEpochFileCache, KIP-101, KIP-279).

Two histories may have the same offsets with other records: a log that was truncated, or an unclean election. Only the
epochs distinguish them. The text form is in `checkpoints`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs with their first offsets."""

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
# Of a history whose end is not known.
NO_END: Final = (1 << 63) - 1


class EpochEnd(NamedTuple):
    """Answer of OffsetForLeaderEpoch: the largest known epoch not above the requested one, and where it ends."""

    epoch: int
    end_offset: int


class EpochLineage:
    """Epochs with their first offsets, both strictly rising, and where the last one ends. Immutable."""

    __slots__ = ("end_offset", "epochs", "spans", "starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = (), end_offset: int = NO_END) -> None:
        """Take over the entries in order, as `with_epoch` does one by one."""
        epochs: list[int] = []
        starts: list[int] = []
        for epoch, start in entries:
            if epochs and epoch <= epochs[-1]:
                continue
            while starts and starts[-1] >= start:
                del epochs[-1], starts[-1]
            epochs.append(epoch)
            starts.append(start)
        self.epochs: tuple[int, ...] = tuple(epochs)
        self.starts: tuple[int, ...] = tuple(starts)
        self.end_offset = end_offset
        # First offset and end of each epoch: `holds` looks here for each of perhaps a hundred thousand segments.
        self.spans = dict(zip(epochs, zip(starts, [*starts[1:], end_offset], strict=False), strict=False))

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, first offset) pairs in order."""
        return list(zip(self.epochs, self.starts, strict=True))

    @property
    def latest(self) -> int:
        """The last epoch, -1 if there is none."""
        return self.epochs[-1] if self.epochs else UNDEFINED_EPOCH

    @property
    def start_offset(self) -> int:
        """The first offset whose epoch is known; the end if none is."""
        return self.starts[0] if self.starts else self.end_offset

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch in which `offset` was or will be written, None if it lies before all epochs."""
        index = bisect_right(self.starts, offset) - 1
        return self.epochs[index] if index >= 0 else None

    def floor_epoch(self, epoch: int) -> int | None:
        """Return the largest epoch not above the given one, None if there is none."""
        index = bisect_right(self.epochs, epoch) - 1
        return self.epochs[index] if index >= 0 else None

    def end_of(self, epoch: int) -> int:
        """Return where an epoch ends: where the next later one begins, or where the history ends."""
        index = bisect_right(self.epochs, epoch)
        return self.starts[index] if index < len(self.starts) else self.end_offset

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the largest known epoch <= `epoch` with its end, as OffsetForLeaderEpoch answers (KIP-101, 279)."""
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        # An epoch before all entries ends where the first one begins.
        known = self.floor_epoch(epoch)
        return EpochEnd(epoch if known is None else known, self.end_of(epoch))

    def between(self, start_offset: int, last_offset: int) -> Epochs:
        """Return the epochs of the records in [start, last], the first one beginning at `start_offset` at the earliest.

        The metadata of a remote segment has its epochs in this form (KIP-405).
        """
        first = max(bisect_right(self.starts, start_offset) - 1, 0)
        end = bisect_right(self.starts, last_offset)
        starts = [max(start, start_offset) for start in self.starts[first:end]]
        return tuple(zip(self.epochs[first:end], starts, strict=True))

    def with_epoch(self, epoch: int, start_offset: int) -> EpochLineage:
        """Return the history in which `epoch` begins at `start_offset`.

        Entries that contradict it are dropped; an epoch that is not later than the last one changes nothing.
        """
        if epoch <= self.latest:
            return self
        return EpochLineage([*self.before(start_offset).entries, (epoch, start_offset)], self.end_offset)

    def before(self, end_offset: int) -> EpochLineage:
        """Return the epochs that began before an offset."""
        kept = bisect_left(self.starts, end_offset)
        return self if kept == len(self.starts) else EpochLineage(self.entries[:kept], self.end_offset)

    def since(self, start_offset: int) -> EpochLineage:
        """Return the epochs that did not end before an offset; the one that covers it begins there."""
        covering = bisect_right(self.starts, start_offset) - 1
        if covering < 0 or (covering == 0 and self.starts[0] == start_offset):
            return self
        return EpochLineage(
            [(self.epochs[covering], start_offset), *self.entries[covering + 1 :]],
            self.end_offset,
        )

    def holds(self, leader_epochs: Sequence[tuple[int, int]], last_offset: int) -> bool:
        """Return whether a segment holds what this history has, as Kafka's isRemoteSegmentWithinLeaderEpochs.

        `leader_epochs` are those of the segment. Its epochs from before this history are left aside: the log start has
        moved past them. Of the first epoch of the history only the part from the log start on is known, so the segment
        may begin before it.
        """
        if last_offset >= self.end_offset or not self.epochs:
            return False
        if len(leader_epochs) == 1:
            return self._has_part(*leader_epochs[0], last_offset)
        first = self.epochs[0]
        shared = [entry for entry in _with_records(leader_epochs) if entry[0] >= first]
        if not shared or any(self._next_entry(epoch) != after for (epoch, _), after in pairwise(shared)):
            return False
        return self._has_part(*shared[0], shared[1][1] - 1 if len(shared) > 1 else last_offset) and (
            self._has_part(*shared[-1], last_offset)
        )

    def agrees_with(self, other: EpochLineage) -> bool:
        """Return whether two histories can be of one partition.

        Their ends may differ, after an unclean election, and their starts, which lie where the log began. What two
        leaders have before an epoch that both know is the same.
        """
        common = max(set(self.epochs) & set(other.epochs), default=None)
        if common is None:
            return True
        starts = [each.spans[common][0] for each in (self, other)]
        if common not in (self.epochs[0], other.epochs[0]) and starts[0] != starts[1]:
            return False
        begin = max(self.start_offset, other.start_offset)
        end = max(begin, *starts)
        if {self.epoch_at(end), other.epoch_at(end)} != {common}:
            return True  # one of them left this epoch before the other one's log began
        return self.between(begin, end) == other.between(begin, end)

    def _has_part(self, epoch: int, start: int, last_offset: int) -> bool:
        """Return whether the records of an epoch in a segment are those of the history."""
        known = self.spans.get(epoch)
        return known is not None and (start >= known[0] or epoch == self.epochs[0]) and last_offset < known[1]

    def _next_entry(self, epoch: int) -> tuple[int, int] | None:
        index = bisect_right(self.epochs, epoch)
        return (self.epochs[index], self.starts[index]) if index < len(self.epochs) else None


def epochs_rise(epochs: Sequence[tuple[int, int]]) -> bool:
    """Return whether epochs and their first offsets rise."""
    return all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(epochs))


def format_epochs(epochs: Sequence[tuple[int, int]]) -> str:
    """Return epochs as people read them: `0 from 106, 2 from 120`."""
    return ", ".join(f"{epoch} from {first}" for epoch, first in epochs) or "none"


def _with_records(entries: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out epochs that ended where they began: nothing was written in them."""
    return [
        entry for index, entry in enumerate(entries) if index + 1 == len(entries) or entries[index + 1][1] != entry[1]
    ]
