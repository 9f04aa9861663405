"""What a leader keeps: how far each replica is, fetches that wait, the voter change under way.

The high watermark is the majority-th largest log end of the voters, and only past the start of the leader's own epoch
(Raft, figure 8). A leader that is no longer a voter does not count itself.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from crabka.kraft.messages import MetadataFetchRequest, ReplicaDescription
from crabka.kraft.roles import RoleName
from crabka.kraft.settings import OBSERVER_SESSION_MS
from crabka.kraft.voters import ReplicaKey, VoterNode, VoterSet

# Any replica id may fetch, so what is kept of observers needs a bound; far more than a cluster has brokers.
MAX_OBSERVERS = 10_000


@dataclass(slots=True)
class Progress:
    """How far one replica is; -1 where it never fetched."""

    key: ReplicaKey
    # When the leader makes itself known to this voter next.
    begin_at_ms: int
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_at_fetch: int = -1

    def record_fetch(self, offset: int, leader_end: int, now_ms: int) -> None:
        """Take a fetch: the replica holds everything below `offset` durably."""
        if offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif self.leader_end_at_fetch > 0 and offset >= self.leader_end_at_fetch:
            # It has now what the leader had at the fetch before: it was caught up then.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.leader_end_at_fetch = leader_end
        self.last_fetch_ms = now_ms
        self.end_offset = offset


class ParkedFetch(NamedTuple):
    """A fetch that waits for records or for a new high watermark."""

    token: object
    request: MetadataFetchRequest
    deadline_ms: int


class ChangeKind(enum.Enum):
    """What a voter change does."""

    ADD = "add"
    REMOVE = "remove"


@dataclass(slots=True)
class PendingChange:
    """The one voter change under way; without an offset it waits for the versions of the new voter."""

    kind: ChangeKind
    token: object
    voter: VoterNode
    deadline_ms: int
    ack_when_committed: bool = True
    offset: int | None = None


@dataclass(slots=True)
class LeaderRole:
    """Leads the epoch."""

    key: ReplicaKey
    epoch_start_offset: int
    check_quorum_deadline_ms: int
    # Below kraft.version 1: the voters of the config with the endpoints that they reported.
    reported_voters: VoterSet
    voters: dict[int, Progress] = field(default_factory=dict)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    # None until a record of this epoch is committed.
    high_watermark: int | None = None
    fetched: set[int] = field(default_factory=set)
    parked: list[ParkedFetch] = field(default_factory=list)
    pending: PendingChange | None = None
    name: RoleName = RoleName.LEADER

    def sync_voters(self, voters: VoterSet, now_ms: int) -> None:
        """Follow a change of the voter set: replicas keep what is known of them on either side."""
        known = {progress.key: progress for progress in self.voters.values()}
        current: dict[int, Progress] = {}
        for node in voters.nodes:
            progress = known.pop(node.key, None) or self.observers.pop(node.key, None)
            if progress is None:
                progress = self._renamed(node, known) or Progress(node.key, begin_at_ms=now_ms)
            current[node.voter_id] = progress
        self.voters = current
        for key, progress in known.items():
            if key != self.key:
                self.observers.setdefault(key, progress)
        self.fetched &= set(current)

    def _renamed(self, node: VoterNode, known: dict[ReplicaKey, Progress]) -> Progress | None:
        """Return what is known of a voter that had no directory id before."""
        key = next((key for key in known if key.matches(node.key)), None)
        if key is None:
            return None
        progress = known.pop(key)
        progress.key = node.key
        return progress

    def progress_of(self, key: ReplicaKey, now_ms: int) -> Progress:
        """Return the progress of a replica, which is noted as an observer if it is not a voter."""
        voter = self.voters.get(key.node_id)
        if voter is not None and voter.key.matches(key):
            return voter
        if key not in self.observers and len(self.observers) >= MAX_OBSERVERS:
            self.forget_idle_observers(now_ms)
            if len(self.observers) >= MAX_OBSERVERS:
                del self.observers[min(self.observers, key=lambda each: self.observers[each].last_fetch_ms)]
        return self.observers.setdefault(key, Progress(key, begin_at_ms=now_ms))

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica counts."""
        voter = self.voters.get(key.node_id)
        return voter is not None and voter.key.matches(key)

    def note_heard(self, key: ReplicaKey, now_ms: int, timeout_ms: int) -> None:
        """A voter fetched: once a majority did, the leader is safe for another time-out."""
        if not self.is_voter(key):
            return
        self.fetched.add(key.node_id)
        others = len(self.voters) // 2 + 1 - (1 if self.is_voter(self.key) else 0)
        if len(self.fetched) >= others:
            self.fetched.clear()
            self.check_quorum_deadline_ms = now_ms + timeout_ms

    def majority_offset(self, own_end_offset: int) -> int:
        """Return the largest offset that a majority of the voters holds durably."""
        ends = [
            own_end_offset if progress.key.matches(self.key) else progress.end_offset
            for progress in self.voters.values()
        ]
        ends.sort(reverse=True)
        return ends[len(ends) // 2] if ends else -1

    def followers_by_end_offset(self) -> list[ReplicaKey]:
        """Return the other voters, the most complete first."""
        others = [progress for progress in self.voters.values() if not progress.key.matches(self.key)]
        others.sort(key=lambda progress: -progress.end_offset)
        return [progress.key for progress in others]

    def forget_idle_observers(self, now_ms: int) -> None:
        """Drop observers that stopped fetching."""
        self.observers = {
            key: progress
            for key, progress in self.observers.items()
            if now_ms - progress.last_fetch_ms < OBSERVER_SESSION_MS
        }

    def describe(self, voters: VoterSet, own_end_offset: int, now_ms: int) -> tuple[ReplicaDescription, ...]:
        """Return the voters for DescribeQuorum; the leader itself is always caught up."""
        return tuple(
            ReplicaDescription(progress.key, own_end_offset, now_ms, now_ms, voters.endpoints_of(node_id))
            if progress.key.matches(self.key)
            else ReplicaDescription(
                progress.key,
                progress.end_offset,
                progress.last_fetch_ms,
                progress.last_caught_up_ms,
                voters.endpoints_of(node_id),
            )
            for node_id, progress in self.voters.items()
        )
