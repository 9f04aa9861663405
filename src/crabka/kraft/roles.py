"""The roles of a replica and the table of legal changes between them (KIP-595, KIP-996).

Observer is not a role: it is any replica that is not in the current voter set.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from crabka.errors import InvariantError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voters import Peer, ReplicaKey, VoterSet


class RoleName(enum.Enum):
    """What a replica does at the moment."""

    UNATTACHED = "Unattached"
    FOLLOWER = "Follower"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    RESIGNED = "Resigned"


# From, to, and when; a change to the same role is a new epoch, a vote or a better known leader.
TRANSITIONS: Mapping[RoleName, Mapping[RoleName, str]] = {
    RoleName.UNATTACHED: {
        RoleName.UNATTACHED: "higher epoch, or vote given",
        RoleName.FOLLOWER: "leader found",
        RoleName.PROSPECTIVE: "election time-out",
    },
    RoleName.FOLLOWER: {
        RoleName.UNATTACHED: "higher epoch",
        RoleName.FOLLOWER: "new leader",
        RoleName.PROSPECTIVE: "fetch time-out, leader lost, or named successor",
    },
    RoleName.PROSPECTIVE: {
        RoleName.UNATTACHED: "higher epoch, vote given, or pre-vote lost",
        RoleName.FOLLOWER: "leader found, or pre-vote lost while one is known",
        RoleName.CANDIDATE: "majority of pre-votes",
    },
    RoleName.CANDIDATE: {
        RoleName.UNATTACHED: "higher epoch",
        RoleName.FOLLOWER: "leader found",
        RoleName.PROSPECTIVE: "election lost or timed out",
        RoleName.LEADER: "majority of votes",
    },
    RoleName.LEADER: {
        RoleName.UNATTACHED: "higher epoch",
        RoleName.FOLLOWER: "leader of a higher epoch",
        RoleName.RESIGNED: "majority lost, asked to, removed, or shut down",
    },
    RoleName.RESIGNED: {
        RoleName.UNATTACHED: "election time-out or higher epoch",
        RoleName.FOLLOWER: "leader of a higher epoch",
        RoleName.PROSPECTIVE: "election time-out of a lone voter",
    },
}


class IllegalRoleChangeError(InvariantError):
    """A change of role that the table does not allow."""

    def __init__(self, replica: object, before: RoleName, after: RoleName) -> None:
        super().__init__(replica, before, after)
        self.replica = replica
        self.before = before
        self.after = after

    def __str__(self) -> str:
        return f"replica {self.replica}: {self.before.value} cannot become {self.after.value}"


def check_transition(replica: object, before: RoleName, after: RoleName) -> None:
    """Raise IllegalRoleChangeError unless the table allows the change."""
    if after not in TRANSITIONS[before]:
        raise IllegalRoleChangeError(replica, before, after)


@dataclass(slots=True)
class Ballot:
    """The votes of one election, counted against the voters at its start."""

    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    @property
    def is_won(self) -> bool:
        """Whether a majority granted."""
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority can no longer grant."""
        return len(self.voters) - len(self.rejected) < self.voters.majority

    @property
    def open_ids(self) -> list[int]:
        """The voters that did not answer yet."""
        return [node.voter_id for node in self.voters.nodes if node.voter_id not in self.granted | self.rejected]

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Count an answer; the first of a voter stands."""
        if voter_id in self.voters.ids and voter_id not in self.granted | self.rejected:
            (self.granted if granted else self.rejected).add(voter_id)


@dataclass(slots=True)
class SnapshotDownload:
    """A snapshot that is being fetched; `size` is known after the first piece."""

    snapshot: OffsetAndEpoch
    position: int = 0
    size: int | None = None
    # Between the last piece and the driver's word that the snapshot is in place.
    installing: bool = False


@dataclass(slots=True)
class UnattachedRole:
    """Knows the epoch but no leader that it could fetch from. Observers never stand for election."""

    election_deadline_ms: int
    name: RoleName = RoleName.UNATTACHED


@dataclass(slots=True)
class FollowerRole:
    """Fetches from a leader."""

    leader: Peer
    fetch_deadline_ms: int
    update_at_ms: int
    # Whether this leader answered a fetch since it became ours: only then are pre-votes refused.
    in_contact: bool = False
    # Whether this leader took our endpoints and versions, which only matters below kraft.version 1.
    told_leader: bool = False
    leader_high_watermark: int | None = None
    download: SnapshotDownload | None = None
    # How many times in a row what this leader sent had to be refused.
    refused_count: int = 0
    name: RoleName = RoleName.FOLLOWER


@dataclass(slots=True)
class ProspectiveRole:
    """Asks whether it would be elected, in its current epoch."""

    ballot: Ballot
    deadline_ms: int
    retries: int
    name: RoleName = RoleName.PROSPECTIVE


@dataclass(slots=True)
class CandidateRole:
    """Stands for election in an epoch of its own; after a loss it waits before it asks again."""

    ballot: Ballot
    deadline_ms: int
    retries: int
    backoff_until_ms: int | None = None
    name: RoleName = RoleName.CANDIDATE


@dataclass(slots=True)
class ResignedRole:
    """Led this epoch and does no more; hands over until an election is due."""

    deadline_ms: int
    successors: tuple[Peer, ...]
    preferred: tuple[ReplicaKey, ...]
    acknowledged: set[int] = field(default_factory=set)
    name: RoleName = RoleName.RESIGNED
