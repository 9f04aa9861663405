"""Who votes: replica keys, voters and voter sets (KIP-853).

A voter is known by node id and directory id together, so that a node that lost its disk is not taken for the one that
voted. A voter set of kraft.version 0 comes from the config and has no directory ids; such a voter matches by node id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from crabka.errors import require
from crabka.ids import ZERO_UUID

NEWEST_KRAFT_VERSION = 1
# The first level at which voters are records in the log and can be changed.
DYNAMIC_VOTERS_VERSION = 1


class VoterEndpoint(NamedTuple):
    """Where a voter is reached: listener name, host and port."""

    name: str
    host: str
    port: int


class ReplicaKey(NamedTuple):
    """One replica of the metadata log; a zero directory id means that it is not known."""

    node_id: int
    directory_id: UUID = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether `other` is this replica; without a directory id of ours the node id decides."""
        return self.node_id == other.node_id and self.directory_id in (ZERO_UUID, other.directory_id)

    def __str__(self) -> str:
        return str(self.node_id) if self.directory_id == ZERO_UUID else f"{self.node_id}:{self.directory_id.hex[-4:]}"


class Peer(NamedTuple):
    """Whom to send to; a bootstrap address whose node is unknown has a negative id."""

    node_id: int
    endpoints: tuple[VoterEndpoint, ...]


@dataclass(frozen=True, slots=True)
class VoterNode:
    """One voter: node id and directory id together distinguish it from a node that lost its disk."""

    voter_id: int
    directory_id: UUID
    endpoints: tuple[VoterEndpoint, ...]
    min_kraft_version: int = 0
    max_kraft_version: int = NEWEST_KRAFT_VERSION

    @property
    def key(self) -> ReplicaKey:
        """The identity of the voter."""
        return ReplicaKey(self.voter_id, self.directory_id)

    def supports(self, level: int) -> bool:
        """Whether the voter can run at this kraft.version."""
        return self.min_kraft_version <= level <= self.max_kraft_version


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters at some offset of the log, ordered by node id; each id at most once."""

    nodes: tuple[VoterNode, ...] = ()

    def __post_init__(self) -> None:
        ids = [node.voter_id for node in self.nodes]
        require(len(set(ids)) == len(ids), f"a voter set names a node twice: {ids}")
        object.__setattr__(self, "nodes", tuple(sorted(self.nodes, key=lambda node: node.voter_id)))

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        return "{" + ", ".join(str(node.key) for node in self.nodes) + "}"

    @property
    def ids(self) -> frozenset[int]:
        """The node ids."""
        return frozenset(node.voter_id for node in self.nodes)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.nodes) // 2 + 1

    def get(self, node_id: int) -> VoterNode | None:
        """Return the voter with this node id."""
        return next((node for node in self.nodes if node.voter_id == node_id), None)

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this very replica is one of the voters."""
        node = self.get(key.node_id)
        return node is not None and node.key.matches(key)

    def endpoints_of(self, node_id: int) -> tuple[VoterEndpoint, ...]:
        """Return where a voter listens; nothing for a node that is no voter."""
        node = self.get(node_id)
        return () if node is None else node.endpoints

    def all_support(self, level: int) -> bool:
        """Whether every voter can run at this kraft.version."""
        return all(node.supports(level) for node in self.nodes)

    def maybe_add(self, node: VoterNode) -> VoterSet | None:
        """Return the set with one voter more, None if its node id is taken."""
        return None if self.get(node.voter_id) is not None else VoterSet((*self.nodes, node))

    def maybe_remove(self, key: ReplicaKey) -> VoterSet | None:
        """Return the set without exactly this replica, None if it is no voter."""
        node = self.get(key.node_id)
        if node is None or node.key != key:
            return None
        return VoterSet(tuple(other for other in self.nodes if other is not node))

    def maybe_update(self, node: VoterNode) -> VoterSet | None:
        """Return the set with new endpoints and versions of a voter, None if it is no voter."""
        if not self.is_voter(node.key):
            return None
        return VoterSet(tuple(node if other.voter_id == node.voter_id else other for other in self.nodes))

    def needs_update(self, node: VoterNode) -> bool:
        """Whether the set says something else of this voter than the voter itself."""
        return self.is_voter(node.key) and self.get(node.voter_id) != node

    def changed_voters(self, other: VoterSet) -> int:
        """Return how many replicas are in one set only: more than one may leave two disjoint majorities."""
        mine = {node.key for node in self.nodes}
        theirs = {node.key for node in other.nodes}
        return len(mine ^ theirs)


def without_directory_ids(voters: VoterSet) -> VoterSet:
    """Return a set as a config names it: node ids and endpoints only."""
    return VoterSet(tuple(replace(node, directory_id=ZERO_UUID) for node in voters.nodes))
