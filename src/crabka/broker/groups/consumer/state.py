"""The state of a consumer group. Only records change it, so that a replay leads to the same state."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from crabka.broker.groups.consumer.assignors.spec import NO_PARTITIONS
from crabka.broker.groups.consumer.member import LEAVING_EPOCH, ConsumerMember, CurrentAssignment
from crabka.broker.groups.consumer.records import (
    ConsumerRecord,
    CurrentRecord,
    GroupEpochRecord,
    MemberRecord,
    PartitionMetadataRecord,
    PatternRecord,
    ResolvedPattern,
    TargetEpochRecord,
    TargetRecord,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

    from crabka.broker.groups.consumer.assignors.spec import Partitions
    from crabka.broker.groups.consumer.member import MemberMetadata

# A group begins with an empty assignment of this epoch, so that no member is ever in the epoch of joining.
FIRST_EPOCH = 1


class ConsumerGroupState(Enum):
    """The states of a consumer group, by the names that clients see."""

    EMPTY = "Empty"
    # The target assignment is older than the group epoch.
    ASSIGNING = "Assigning"
    # Some members have not reached the target assignment.
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroupData:
    """Members, epochs, target assignment and patterns of one group."""

    __slots__ = (
        "_subscribed",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "has_partition_metadata",
        "is_stored",
        "members",
        "metadata_hash",
        "owners",
        "patterns",
        "static_members",
        "target",
    )

    def __init__(self) -> None:
        # Whether the log has a record of the group itself.
        self.is_stored = False
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.has_partition_metadata = False
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Partitions] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        # The member that has a partition or is still revoking it.
        self.owners: dict[tuple[uuid.UUID, int], str] = {}
        # Topics that any member subscribes to; None until needed.
        self._subscribed: frozenset[str] | None = None

    def copy(self) -> ConsumerGroupData:
        """Return a copy, to restore if records cannot be stored."""
        twin = ConsumerGroupData.__new__(ConsumerGroupData)
        for name in ConsumerGroupData.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, dict) else value)
        return twin

    # -- replay --------------------------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        """Apply a record."""
        match record:
            case MemberRecord(_, member_id, None):
                self._remove_member(member_id)
            case MemberRecord(_, member_id, metadata) if metadata is not None:
                self._put_member(member_id, metadata)
            case CurrentRecord(_, member_id, current):
                self._put_current(member_id, current)
            case TargetRecord(_, member_id, None):
                self.target.pop(member_id, None)
            case TargetRecord(_, member_id, partitions) if partitions is not None:
                self.target[member_id] = partitions
            case GroupEpochRecord(_, epoch, metadata_hash):
                self.is_stored = epoch is not None
                self.epoch = FIRST_EPOCH if epoch is None else epoch
                self.metadata_hash = metadata_hash
            case TargetEpochRecord(_, epoch, timestamp_ms):
                self.assignment_epoch = FIRST_EPOCH if epoch is None else epoch
                self.assignment_timestamp_ms = timestamp_ms
            case PatternRecord(_, pattern, resolved):
                self._put_pattern(pattern, resolved)
            case PartitionMetadataRecord(_, deleted):
                self.has_partition_metadata = not deleted

    def _put_member(self, member_id: str, metadata: MemberMetadata) -> None:
        member = self.members.get(member_id) or ConsumerMember(member_id)
        before = member.metadata.instance_id
        if before is not None and before != metadata.instance_id and self.static_members.get(before) == member_id:
            del self.static_members[before]
        if metadata.instance_id is not None:
            self.static_members[metadata.instance_id] = member_id
        self.members[member_id] = member._replace(metadata=metadata)
        self._subscribed = None

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        self._subscribed = None

    def _put_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        member = self.members.get(member_id)
        if member is None:
            if current is None:
                return
            member = ConsumerMember(member_id)
        self._release(member)
        self.members[member_id] = member._replace(current=current or CurrentAssignment(epoch=LEAVING_EPOCH))
        if current is not None:
            for topics in (current.assigned, current.revoking):
                for topic_id, partitions in topics.items():
                    for partition in partitions:
                        self.owners[topic_id, partition] = member_id

    def _release(self, member: ConsumerMember) -> None:
        owners = self.owners
        for topics in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in topics.items():
                for partition in partitions:
                    if owners.get((topic_id, partition)) == member.member_id:
                        del owners[topic_id, partition]

    def _put_pattern(self, pattern: str, resolved: ResolvedPattern | None) -> None:
        if resolved is None:
            self.patterns.pop(pattern, None)
        else:
            self.patterns[pattern] = resolved
        self._subscribed = None

    # -- views ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """Return the state that clients see while the group exists on this node."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_gone(self) -> bool:
        """Return whether no record of the group is left."""
        records = (self.is_stored, self.members, self.target, self.patterns, self.has_partition_metadata)
        return not any(records) and self.assignment_epoch == FIRST_EPOCH

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member of an instance, if there is one."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str) -> Partitions:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NO_PARTITIONS)

    def is_free(self, topic_id: uuid.UUID, partition: int) -> bool:
        """Return whether no member has a partition."""
        return (topic_id, partition) not in self.owners

    def topics_of(self, member: ConsumerMember) -> set[str]:
        """Return the names of the topics that a member subscribes to, by name or by pattern."""
        names = set(member.metadata.topic_names)
        resolved = self.patterns.get(member.metadata.topic_regex or "")
        if resolved is not None:
            names.update(resolved.topics)
        return names

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of the topics that any member subscribes to."""
        if self._subscribed is None:
            self._subscribed = frozenset[str]().union(*(self.topics_of(each) for each in self.members.values()))
        return self._subscribed

    def subscribed_patterns(self) -> set[str]:
        """Return the patterns that any member subscribes to."""
        return {each.metadata.topic_regex for each in self.members.values() if each.metadata.topic_regex}

    def preferred_assignor(self) -> str | None:
        """Return the assignor that most members name; None if no member names one."""
        votes = Counter(each.metadata.server_assignor for each in self.members.values())
        votes.pop(None, None)
        return votes.most_common(1)[0][0] if votes else None

    @property
    def classic_member_count(self) -> int:
        """Return how many members use the classic protocol."""
        return sum(member.uses_classic_protocol for member in self.members.values())

    def supports_classic_protocols(self, names: set[str]) -> bool:
        """Return whether a classic member with these protocols can join."""
        known = [
            {name for name, _ in member.metadata.classic.protocols}
            for member in self.members.values()
            if member.metadata.classic is not None
        ]
        return bool(set.intersection(names, *known))

    def is_waiting_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member still has a partition of a member's target."""
        return any(
            partition not in member.current.assigned.get(topic_id, ()) and not self.is_free(topic_id, partition)
            for topic_id, partitions in self.target_of(member.member_id).items()
            for partition in partitions
        )

    # -- records -------------------------------------------------------------------------------------------------

    def tombstones(self, group_id: str) -> Iterator[ConsumerRecord]:
        """Yield the records that remove the group, in Kafka's order."""
        for member_id in self.members:
            yield CurrentRecord(group_id, member_id, None)
        for member_id in dict.fromkeys((*self.members, *self.target)):
            yield TargetRecord(group_id, member_id, None)
        yield TargetEpochRecord(group_id, None)
        for member_id in self.members:
            yield MemberRecord(group_id, member_id, None)
        for pattern in self.patterns:
            yield PatternRecord(group_id, pattern, None)
        if self.has_partition_metadata:
            yield PartitionMetadataRecord(group_id)
        yield GroupEpochRecord(group_id, None)
