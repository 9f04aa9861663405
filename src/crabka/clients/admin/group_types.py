"""Results of calls about groups, and the assignment in the opaque bytes of classic members."""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment

from crabka.errors import WireError
from crabka.ids import TopicPartition
from crabka.protocol.apis import read_entity_untrusted

CONSUMER_PROTOCOL = "consumer"
_VERSION_BYTES = 2


class GroupListing(NamedTuple):
    """A group in a list; state and type are empty if the broker is too old to return them."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class GroupMember(NamedTuple):
    """A member of a group. The assignment is None if it is not of the consumer protocol (Kafka Connect's, for one).

    The target assignment and the epoch exist only with KIP-848.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...] | None
    target_assignment: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None


class GroupDescription(NamedTuple):
    """A group with its members; `type` is classic or consumer, epochs exist only with KIP-848."""

    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    coordinator_id: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


class GroupOffset(NamedTuple):
    """The committed offset of a group for a partition."""

    offset: int
    leader_epoch: int
    metadata: str


def decode_assignment_untrusted(data: bytes) -> tuple[TopicPartition, ...] | None:
    """Return the partitions in a classic member's assignment, sorted; None if the bytes have another format.

    version int16 | ConsumerProtocolAssignment. All versions begin with the same fields, later ones are ignored.
    """
    if not data:
        return ()
    try:
        decoded = read_entity_untrusted(ConsumerProtocolAssignment, data, _VERSION_BYTES)
    except WireError:
        return None
    return tuple(
        sorted(
            TopicPartition(entry.topic, index) for entry in decoded.assigned_partitions for index in entry.partitions
        )
    )
