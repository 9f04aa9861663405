"""A member of a consumer group: its metadata and the state of its assignment. Immutable values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from crabka.broker.groups.consumer.assignors.spec import Partitions

# Partitions with the epoch in which the member got them (KIP-1251).
AssignedPartitions: TypeAlias = Mapping[uuid.UUID, Mapping[int, int]]
NOTHING_ASSIGNED: Final[AssignedPartitions] = {}

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2


class ReconciliationState(IntEnum):
    """The progress of a member towards its target, by the stored numbers."""

    STABLE = 0
    # It has to revoke partitions and still has them.
    UNREVOKED_PARTITIONS = 1
    # Other members still have partitions of its target.
    UNRELEASED_PARTITIONS = 2
    # Written by a later version.
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> ReconciliationState:  # noqa: ARG003 - the signature is enum's
        return cls.UNKNOWN


class ClassicMetadata(NamedTuple):
    """What a member with the classic protocol sent when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberMetadata(NamedTuple):
    """What a member reported about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    # Sorted.
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    # Set while the member uses the classic protocol.
    classic: ClassicMetadata | None = None


class CurrentAssignment(NamedTuple):
    """The current assignment of a member on the way to its target."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: ReconciliationState = ReconciliationState.STABLE
    assigned: AssignedPartitions = NOTHING_ASSIGNED
    revoking: AssignedPartitions = NOTHING_ASSIGNED

    def moved_to(self, epoch: int) -> CurrentAssignment:
        """Return the same in another epoch; the previous epoch stays valid, because an answer may be lost."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)


class ConsumerMember(NamedTuple):
    """One member."""

    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def uses_classic_protocol(self) -> bool:
        """Return whether the member uses JoinGroup, SyncGroup and Heartbeat."""
        return self.metadata.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has its whole target of an epoch."""
        return self.current.state is ReconciliationState.STABLE and self.current.epoch == epoch


def numbers_of(assigned: AssignedPartitions) -> Partitions:
    """Return the partitions without their epochs."""
    return {topic_id: frozenset(partitions) for topic_id, partitions in assigned.items()}


def is_subset(owned: Partitions | None, assigned: AssignedPartitions) -> bool:
    """Return whether all reported partitions are assigned to the member; without a report it may own more."""
    if owned is None:
        return False
    return all(
        topic_id in assigned and all(each in assigned[topic_id] for each in partitions)
        for topic_id, partitions in owned.items()
    )
