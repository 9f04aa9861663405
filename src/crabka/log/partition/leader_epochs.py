"""At which offset each leader epoch of a log began (Kafka's LeaderEpochFileCache).

Owns the list and its text form; does not know files. The owner writes `encode()` to `leader-epoch-checkpoint`
while it is `dirty`, and calls `note_saved` once that is durable: entries that a crash takes away are found again in the
batch headers above the recovery point.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from crabka.formats.checkpoints import encode_epochs

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEnd(NamedTuple):
    """Answer of OffsetForLeaderEpoch: the largest known epoch not above the asked one, and where it ends."""

    epoch: int
    end_offset: int


class LeaderEpochCache:
    """Epochs with their start offsets, both strictly rising."""

    __slots__ = ("_epochs", "_saved", "_starts", "latest", "version")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED_EPOCH
        # Rises with every change.
        self.version = 0
        for epoch, start in entries:
            self.assign(epoch, start)
        self._saved = self.version

    @property
    def dirty(self) -> bool:
        """Whether something changed since what the disk holds for certain."""
        return self._saved != self.version

    def note_saved(self, version: int) -> None:
        """Note that the content as of `version` is durable."""
        self._saved = version

    def note_unsaved(self) -> None:
        """Note that the file is not known to hold the content: it lies elsewhere now."""
        self.version += 1

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset) pairs in order."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`; entries that contradict it go, an older epoch is ignored."""
        if epoch <= self.latest:
            return
        while self._starts and self._starts[-1] >= start_offset:
            self._starts.pop()
            self._epochs.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._changed()

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which `offset` was or will be written, None if it lies before all entries."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def start_of(self, epoch: int) -> int | None:
        """Return where an epoch began, None if it is not in the cache."""
        index = bisect_right(self._epochs, epoch) - 1
        return self._starts[index] if index >= 0 and self._epochs[index] == epoch else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return the largest known epoch <= `epoch` with its end, as OffsetForLeaderEpoch answers (KIP-101, 279)."""
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            # The asker knows an epoch that this log has not seen.
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        # An epoch before all entries ends where the first one begins.
        return EpochEnd(self._epochs[above - 1] if above else epoch, self._starts[above])

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that began at or after the new log end."""
        if not self._starts or self._starts[-1] < end_offset:
            return
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
        self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended before the new log start; the one that covers it then begins there."""
        covering = bisect_right(self._starts, start_offset) - 1
        if covering < 0 or (self._starts[covering] == start_offset and covering == 0):
            return
        del self._starts[:covering], self._epochs[:covering]
        self._starts[0] = start_offset
        self._changed()

    def clear(self) -> None:
        """Forget everything."""
        self._epochs.clear()
        self._starts.clear()
        self._changed()

    def between(self, start_offset: int, last_offset: int) -> tuple[tuple[int, int], ...]:
        """Return the epochs of the records in [start, last], the first one beginning at `start_offset` at the earliest.

        This is what the metadata of a remote segment says of its epochs (KIP-405).
        """
        first = max(bisect_right(self._starts, start_offset) - 1, 0)
        end = bisect_right(self._starts, last_offset)
        starts = [max(start, start_offset) for start in self._starts[first:end]]
        return tuple(zip(self._epochs[first:end], starts, strict=True))

    def text_up_to(self, end_offset: int) -> bytes:
        """Return a checkpoint file of the epochs that began before `end_offset`."""
        return encode_epochs(self.entries[: bisect_left(self._starts, end_offset)])

    def encode(self) -> bytes:
        """Return the content of the checkpoint file."""
        return encode_epochs(self.entries)

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.version += 1
