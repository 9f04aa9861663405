"""Voter sets and kraft.version by offset: what counts now, what counted then, what returns after a truncation.

A voter record counts from the moment it is in the log, committed or not (KIP-853); `truncate` takes it back. What
comes from the config or from the snapshot that formatting wrote lies at offset -1.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from crabka.errors import require
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voters import VoterSet

T = TypeVar("T")
BEFORE_THE_LOG = -1


class HistoryEntry(NamedTuple, Generic[T]):
    """A value and the offset of the record that set it."""

    offset: int
    value: T


class LogHistory(Generic[T]):
    """Values by rising offset; never empty."""

    def __init__(self, first: T, offset: int = BEFORE_THE_LOG) -> None:
        self.entries: list[HistoryEntry[T]] = [HistoryEntry(offset, first)]

    @property
    def last(self) -> HistoryEntry[T]:
        """The newest entry."""
        return self.entries[-1]

    def add(self, offset: int, value: T) -> None:
        """Append a value."""
        require(offset > self.last.offset, f"a control record at {offset} lies before {self.last.offset}")
        self.entries.append(HistoryEntry(offset, value))

    def at(self, offset: int) -> T:
        """Return the value in force for a reader that has read up to and including `offset`."""
        return next((entry.value for entry in reversed(self.entries) if entry.offset <= offset), self.entries[0].value)

    def truncate(self, end_offset: int) -> None:
        """Drop the values of records at or after `end_offset`."""
        while len(self.entries) > 1 and self.entries[-1].offset >= end_offset:
            self.entries.pop()

    def prune(self, start_offset: int) -> None:
        """Forget what no reader from `start_offset` on can ask for."""
        while len(self.entries) > 1 and self.entries[1].offset < start_offset:
            self.entries.pop(0)


class VoterHistory:
    """The voter sets and kraft.version levels in the log and its snapshot."""

    def __init__(
        self, voters: VoterSet | None = None, kraft_version: int = 0, snapshot: OffsetAndEpoch | None = None
    ) -> None:
        offset = BEFORE_THE_LOG if snapshot is None else snapshot.offset - 1
        self._voters = LogHistory(voters if voters is not None else VoterSet(), offset)
        self._kraft_version = LogHistory(kraft_version, offset)

    @property
    def voters(self) -> VoterSet:
        """The voter set in force."""
        return self._voters.last.value

    @property
    def voters_offset(self) -> int:
        """Where the voter set in force was written, -1 if not in the log."""
        return self._voters.last.offset

    @property
    def kraft_version(self) -> int:
        """The level in force."""
        return self._kraft_version.last.value

    @property
    def kraft_version_offset(self) -> int:
        """Where the level in force was written, -1 if not in the log."""
        return self._kraft_version.last.offset

    def uncommitted_predecessor(self, high_watermark: int) -> VoterSet | None:
        """Return the voters before the last change if that change is not known to be committed."""
        entries = self._voters.entries
        return entries[-2].value if len(entries) > 1 and entries[-1].offset >= high_watermark else None

    def was_voter(self, node_id: int) -> bool:
        """Whether any set that is still known names this node."""
        return any(entry.value.get(node_id) is not None for entry in self._voters.entries)

    def voters_at(self, offset: int) -> VoterSet:
        """Return the voter set of a snapshot that ends above `offset`."""
        return self._voters.at(offset)

    def kraft_version_at(self, offset: int) -> int:
        """Return the level of a snapshot that ends above `offset`."""
        return self._kraft_version.at(offset)

    def voters_from(self, offset: int) -> list[VoterSet]:
        """Return the set in force at `offset` - 1 and those set from `offset` on."""
        later = [entry.value for entry in self._voters.entries if entry.offset >= offset]
        return [self._voters.at(offset - 1), *later]

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        """Take a voter record that was appended at `offset`."""
        self._voters.add(offset, voters)

    def add_kraft_version(self, offset: int, level: int) -> None:
        """Take a kraft.version record that was appended at `offset`."""
        self._kraft_version.add(offset, level)

    def truncate(self, end_offset: int) -> None:
        """Return to what counted when the log ended at `end_offset`."""
        self._voters.truncate(end_offset)
        self._kraft_version.truncate(end_offset)

    def prune(self, start_offset: int) -> None:
        """Forget what lies before the start of the log."""
        self._voters.prune(start_offset)
        self._kraft_version.prune(start_offset)

    def restart(self, snapshot: OffsetAndEpoch, voters: VoterSet, kraft_version: int) -> None:
        """Go on from a snapshot that replaced the log; one of kraft.version 0 leaves the voters of the config."""
        if kraft_version == 0 and not voters.nodes:
            voters = self._voters.entries[0].value
        self._voters = LogHistory(voters, snapshot.offset - 1)
        self._kraft_version = LogHistory(kraft_version, snapshot.offset - 1)
