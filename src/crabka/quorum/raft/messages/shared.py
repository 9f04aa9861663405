"""Common parts of the quorum's wire messages: one topic with one partition, ids, endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from crabka.errors import OperationError
from crabka.ids import ZERO_UUID
from crabka.kraft.messages import LeaderHint
from crabka.kraft.voters import ReplicaKey, VoterEndpoint
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.log.side_files import METADATA_TOPIC_ID

METADATA_TOPIC = "__cluster_metadata"
NO_NODE = -1
UNKNOWN = -1
# For a peer that does not state its epoch: older than every epoch with a leader.
NO_HINT = LeaderHint(0)


def only_partition(topics: Sequence[Any], index_name: str = "partition_index") -> Any:
    """Return the one partition of a message about the metadata log.

    Raises OperationError INVALID_REQUEST if the message is about something else.
    """
    if len(topics) == 1 and _is_metadata(topics[0]) and len(topics[0].partitions) == 1:
        partition = topics[0].partitions[0]
        if getattr(partition, index_name) == 0:
            return partition
    raise OperationError(ErrorCode.invalid_request, f"the request is not about partition 0 of {METADATA_TOPIC}")


def _is_metadata(topic: Any) -> bool:
    for name in ("topic_name", "name", "topic"):
        if hasattr(topic, name):
            return bool(getattr(topic, name) == METADATA_TOPIC)
    return bool(topic.topic_id == METADATA_TOPIC_ID)


def key_of(node_id: int, directory_id: UUID | None) -> ReplicaKey:
    """Return the key of a replica; the wire has null for the zero id."""
    return ReplicaKey(node_id, directory_id or ZERO_UUID)


def maybe_key_of(node_id: int, directory_id: UUID | None) -> ReplicaKey | None:
    """Return the key of a replica, None if the request has none."""
    return None if node_id == NO_NODE else key_of(node_id, directory_id)


def maybe_id(node_id: int) -> int | None:
    """Return a node id, None for -1."""
    return None if node_id == NO_NODE else node_id


def wire_id(node_id: int | None) -> int:
    """Return a node id for the wire."""
    return NO_NODE if node_id is None else node_id


def endpoints_of(listeners: Sequence[Any]) -> tuple[VoterEndpoint, ...]:
    """Read named endpoints."""
    return tuple(VoterEndpoint(item.name, item.host, item.port) for item in listeners)


def hint_of(leader_id: int, epoch: int, node_endpoints: Sequence[Any]) -> LeaderHint:
    """Return the leader that a peer knows; its endpoints have no listener name there."""
    endpoints = [
        VoterEndpoint("", item.host, item.port)
        for item in node_endpoints
        if item.node_id == leader_id and leader_id != NO_NODE
    ]
    return LeaderHint(epoch, maybe_id(leader_id), tuple(endpoints))


def told_endpoint(hint: LeaderHint, listener: str) -> VoterEndpoint | None:
    """Return the leader's endpoint for a response: that of the request's listener, else any."""
    if hint.leader_id is None or not hint.endpoints:
        return None
    return next((item for item in hint.endpoints if item.name == listener), hint.endpoints[0])
