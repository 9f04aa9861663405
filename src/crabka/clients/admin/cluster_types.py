"""Arguments and results of admin calls about nodes, the metadata quorum and replicas."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from crabka.kraft.voters import VoterEndpoint

METADATA_TOPIC = "__cluster_metadata"


class ElectionKind(enum.IntEnum):
    """Eligible replicas: the preferred one, or any live one, which may lose records (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


class QuorumReplica(NamedTuple):
    """A replica of the metadata log as its leader sees it; unknown times are -1."""

    node_id: int
    directory_id: uuid.UUID
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class DescribedQuorum(NamedTuple):
    """The metadata quorum: its leader, voters, observers, and the endpoints of its controllers."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[VoterEndpoint, ...]]

    @property
    def leader(self) -> QuorumReplica | None:
        """The leader, None if the response does not list it."""
        return next((each for each in (*self.voters, *self.observers) if each.node_id == self.leader_id), None)


class ReplicaMove(NamedTuple):
    """A reassignment: all current replicas, those to add, and those to remove."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)
