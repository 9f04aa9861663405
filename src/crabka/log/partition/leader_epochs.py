"""The leader epochs of a log and whether the disk has them (Kafka's LeaderEpochFileCache).

Owns the lineage and its text form; does not know files. The owner writes `encode()` to `leader-epoch-checkpoint`
while the cache is `dirty`, and calls `note_saved` once that is durable: entries that a crash takes away are found again
in the batch headers above the recovery point.
"""

from __future__ import annotations

from collections.abc import Iterable

from crabka.formats.checkpoints import encode_epochs
from crabka.formats.leader_epochs import NO_END, EpochLineage


class LeaderEpochCache:
    """The lineage of a log, which changes, and what of it is durable."""

    __slots__ = ("_saved", "latest", "lineage", "version")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.lineage = EpochLineage(entries)
        # A field of its own: compared with the epoch of each appended batch.
        self.latest = self.lineage.latest
        # Rises with every change.
        self.version = 0
        self._saved = 0

    @property
    def dirty(self) -> bool:
        """Whether something changed since what the disk holds for certain."""
        return self._saved != self.version

    def note_saved(self, version: int) -> None:
        """Note that the content as of `version` is durable."""
        self._saved = version

    def note_unsaved(self) -> None:
        """Note that the file may not hold the content: the log is in another directory now."""
        self.version += 1

    @property
    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset) pairs in order."""
        return self.lineage.entries

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`; entries that contradict it go, an older epoch is ignored."""
        self._replace(self.lineage.with_epoch(epoch, start_offset))

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that began at or after the new log end."""
        self._replace(self.lineage.before(end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended before the new log start; the one that covers it then begins there."""
        self._replace(self.lineage.since(start_offset))

    def clear(self) -> None:
        """Forget everything."""
        self._replace(EpochLineage())

    def encode(self, end_offset: int = NO_END) -> bytes:
        """Return the content of a checkpoint file of the epochs that began before an offset."""
        return encode_epochs(self.lineage.before(end_offset).entries)

    def _replace(self, lineage: EpochLineage) -> None:
        if lineage is not self.lineage:
            self.lineage = lineage
            self.latest = lineage.latest
            self.version += 1
