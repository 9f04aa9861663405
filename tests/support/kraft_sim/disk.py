"""The disk of a simulated replica: a metadata log as a list, snapshots, quorum-state.

Appended entries are lost in a crash from a random point behind the last sync on. Truncation, snapshots and
quorum-state are durable when their call returns, as the driver's contract demands. `rot` loses entries that were
durable; the note of the durable end shows that.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from crabka.kraft.actions import ControlRecord, ElectionState, KRaftVersionChange, VotersChange
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import VoterSet


class Entry(NamedTuple):
    """One record: the epoch of its leader, and a control record or the number of a client's record."""

    epoch: int
    payload: ControlRecord | int
    # Batches are read, kept in a crash and covered by a snapshot as a whole.
    ends_batch: bool = True


class SnapshotFile(NamedTuple):
    """A snapshot: what consensus needs of it, and bytes to send."""

    voters: VoterSet
    kraft_version: int
    data: bytes


@dataclass
class SimulatedLog:
    """The log of one replica; the view of the core and the files below it."""

    start_offset: int = 0
    entries: list[Entry] = field(default_factory=list)
    synced_offset: int = 0
    snapshots: dict[OffsetAndEpoch, SnapshotFile] = field(default_factory=dict)
    # The epoch of the record before `start_offset`.
    start_epoch: int = 0
    # What was synced, as the driver notes it beside the log.
    note: OffsetAndEpoch = field(default_factory=lambda: OffsetAndEpoch(0, 0))

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else self.start_epoch

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=None)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=None)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index].epoch <= epoch:
                return OffsetAndEpoch(self.start_offset + index + 1, self.entries[index].epoch)
        return OffsetAndEpoch(self.start_offset, self.start_epoch)

    def snapshot_size(self, snapshot: OffsetAndEpoch) -> int | None:
        file = self.snapshots.get(snapshot)
        return None if file is None else len(file.data)

    def entry(self, offset: int) -> Entry | None:
        index = offset - self.start_offset
        return self.entries[index] if 0 <= index < len(self.entries) else None

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at an offset, also of the last one that the snapshot covers."""
        if offset == self.start_offset - 1:
            return self.start_epoch
        entry = self.entry(offset)
        return None if entry is None else entry.epoch

    def read(self, offset: int, count: int) -> tuple[Entry, ...]:
        """Return some entries, whole batches."""
        return tuple(self.entries[offset - self.start_offset : self._batch_end(offset + count) - self.start_offset])

    def is_batch_end(self, offset: int) -> bool:
        """Whether a batch ends at this end offset."""
        entry = self.entry(offset - 1)
        return entry is None or entry.ends_batch

    def append(self, entries: tuple[Entry, ...]) -> tuple[tuple[int, ControlRecord], ...]:
        """Write entries and return the control records among them with their offsets."""
        base = self.end_offset
        self.entries.extend(entries)
        return tuple(
            (base + index, entry.payload) for index, entry in enumerate(entries) if not isinstance(entry.payload, int)
        )

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    def sync(self, end_offset: int) -> None:
        """Everything below an offset is durable, and noted as such."""
        self.synced_offset = max(self.synced_offset, end_offset)
        end = OffsetAndEpoch(end_offset, self.epoch_at(end_offset - 1) or 0)
        if end_offset <= self.end_offset and end.recency > self.note.recency:
            self.note = end

    def truncate(self, end_offset: int) -> None:
        is_whole = self.end.recency >= self.note.recency
        del self.entries[end_offset - self.start_offset :]
        self.synced_offset = self.end_offset
        if is_whole and self.note.recency > self.end.recency:
            self.note = self.end

    def restart_at(self, snapshot: OffsetAndEpoch, file: SnapshotFile) -> None:
        is_whole = self.end.recency >= self.note.recency
        self.snapshots = {snapshot: file}
        self.entries = []
        self.start_offset = self.synced_offset = snapshot.offset
        self.start_epoch = snapshot.epoch
        if is_whole or snapshot.recency > self.note.recency:
            self.note = snapshot

    def rot(self, rng: random.Random) -> bool:
        """Flip a byte of a durable entry, if there is one: the next start finds the log cut before its batch."""
        newest = self.latest_snapshot
        lowest = self.start_offset if newest is None else newest.offset
        highest = min(self.note.offset, self.end_offset)
        if lowest >= highest:
            return False
        offset = rng.randrange(lowest, highest)
        while offset > lowest and not self.is_batch_end(offset):
            offset -= 1
        del self.entries[offset - self.start_offset :]
        self.synced_offset = self.end_offset
        return True

    def prune(self, snapshot: OffsetAndEpoch) -> None:
        """Drop what a snapshot covers, and older snapshots."""
        self.entries = self.entries[snapshot.offset - self.start_offset :]
        self.start_offset, self.start_epoch = snapshot
        self.snapshots = {key: file for key, file in self.snapshots.items() if key >= snapshot}

    def crash(self, rng: random.Random) -> None:
        """Keep what was synced and a random part of the rest."""
        kept = self._batch_end(rng.randint(min(self.synced_offset, self.end_offset), self.end_offset))
        del self.entries[kept - self.start_offset :]
        self.synced_offset = self.end_offset

    def _batch_end(self, offset: int) -> int:
        while not self.is_batch_end(offset):
            offset += 1
        return offset


@dataclass
class SimulatedDisk:
    """All that survives a crash."""

    log: SimulatedLog = field(default_factory=SimulatedLog)
    election: ElectionState | None = None
    # What the config or the formatting says.
    first_voters: VoterSet = field(default_factory=VoterSet)
    first_kraft_version: int = 0

    def history(self) -> VoterHistory:
        """Read the voters back as a starting node does."""
        log = self.log
        newest = log.latest_snapshot
        if newest is None:
            history = VoterHistory(self.first_voters, self.first_kraft_version)
        else:
            file = log.snapshots[newest]
            history = VoterHistory(file.voters, file.kraft_version, newest)
        first = log.start_offset if newest is None else newest.offset
        for offset in range(first, log.end_offset):
            entry = log.entry(offset)
            if entry is not None and isinstance(entry.payload, VotersChange):
                history.add_voters(offset, entry.payload.voters)
            elif entry is not None and isinstance(entry.payload, KRaftVersionChange):
                history.add_kraft_version(offset, entry.payload.level)
        return history
