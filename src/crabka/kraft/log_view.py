"""What the core sees of the metadata log: ends, epochs and snapshots, never a record.

The driver implements `LogView` with the real log, the simulation with a list. All answers include unsynced records; the
core is notified separately of what is durable.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol


class OffsetAndEpoch(NamedTuple):
    """An end offset and the epoch of the record before it; also the id of a snapshot."""

    offset: int
    epoch: int

    @property
    def recency(self) -> tuple[int, int]:
        """What makes a log up to date: the later last epoch, then the larger end offset."""
        return (self.epoch, self.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


# The snapshot that formatting writes; it is never sent, the first leader copies its content into the log.
BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)


class LogView(Protocol):
    """The log as far as consensus needs it."""

    @property
    def start_offset(self) -> int:
        """The first offset that the log holds."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, that of the snapshot in a log without records, else 0."""
        ...

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The oldest snapshot."""
        ...

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch not above `epoch` that the log knows, and where it ends.

        The epoch of the snapshot at the log start ends there if no record has it. Below the first known epoch the
        answer is the log start with that snapshot's epoch, or (0, 0).
        """
        ...

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int | None:
        """Return the bytes of a snapshot, None if there is none of this id."""
        ...


class FetchPosition(enum.Enum):
    """What a fetch position is to the leader's log."""

    VALID = enum.auto()
    DIVERGING = enum.auto()
    SNAPSHOT = enum.auto()


def end_of_log(log: LogView) -> OffsetAndEpoch:
    """Return the end of the log with its last epoch."""
    return OffsetAndEpoch(log.end_offset, log.last_epoch)


def judge_position(log: LogView, offset: int, epoch: int) -> tuple[FetchPosition, OffsetAndEpoch]:
    """Return the leader's answer to a fetch at `offset` after a record of `epoch` (KIP-595, KIP-630).

    Valid positions come back as they are; diverging ones with the end of the largest common epoch; positions that the
    log no longer holds with the newest snapshot.
    """
    latest = log.latest_snapshot
    if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        # A snapshot is cheaper than the log from its beginning.
        return FetchPosition.SNAPSHOT, latest
    if offset == 0 and log.start_offset == 0:
        return FetchPosition.VALID, OffsetAndEpoch(0, 0)
    earliest = log.earliest_snapshot
    if earliest is not None and latest is not None and _is_before_the_log(log, earliest, offset, epoch):
        return FetchPosition.SNAPSHOT, latest
    known = log.end_offset_for_epoch(epoch)
    if known.epoch != epoch or known.offset < offset:
        return FetchPosition.DIVERGING, known
    return FetchPosition.VALID, OffsetAndEpoch(offset, epoch)


def truncation_offset(log: LogView, diverging: OffsetAndEpoch) -> int:
    """Return where a follower cuts its log when the leader names the end of their largest common epoch."""
    mine = log.end_offset_for_epoch(diverging.epoch)
    if mine.epoch == diverging.epoch:
        return min(mine.offset, diverging.offset)
    return mine.offset


def _is_before_the_log(log: LogView, earliest: OffsetAndEpoch, offset: int, epoch: int) -> bool:
    if offset < log.start_offset or epoch < earliest.epoch:
        return True
    return offset == log.start_offset and epoch != earliest.epoch
