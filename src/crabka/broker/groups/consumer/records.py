"""Records of consumer groups in `__consumer_offsets`, byte for byte as Kafka 4.3 writes and reads them (KIP-848)."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, assert_never

from crabka.broker.groups.consumer.member import (
    AssignedPartitions,
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
    ReconciliationState,
)
from crabka.errors import WireError
from crabka.protocol.entity_codec import decode_entity, encode_entity
from crabka.protocol.generated.group import consumer_group_current_member_assignment_value as current_value
from crabka.protocol.generated.group import consumer_group_member_metadata_value as member_value
from crabka.protocol.generated.group import consumer_group_target_assignment_member_value as target_value
from crabka.protocol.generated.group.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from crabka.protocol.generated.group.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from crabka.protocol.generated.group.consumer_group_metadata_key import ConsumerGroupMetadataKey
from crabka.protocol.generated.group.consumer_group_metadata_value import ConsumerGroupMetadataValue
from crabka.protocol.generated.group.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from crabka.protocol.generated.group.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from crabka.protocol.generated.group.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from crabka.protocol.generated.group.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from crabka.protocol.generated.group.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from crabka.protocol.generated.group.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

if TYPE_CHECKING:
    from crabka.broker.groups.consumer.assignors.spec import Partitions

Pair: TypeAlias = tuple[bytes, bytes | None]

_SHORT = Struct(">h")
_VERSION = _SHORT.pack(0)
# Kafka writes the tagged field of a classic member also when there is none: one tag, number 0, one byte, null. The
# codec leaves such a field out and reads the null as a struct, so it is put in and taken out here. No other value
# ends like this: structs end with two empty sets of tags.
_NO_TAGS = b"\0"
_NULL_CLASSIC_TAG = b"\1\0\1\0"


class MemberRecord(NamedTuple):
    """The metadata of a member, or its removal."""

    group_id: str
    member_id: str
    metadata: MemberMetadata | None


class GroupEpochRecord(NamedTuple):
    """The group's epoch with the hash of its topics, or the removal of the group."""

    group_id: str
    epoch: int | None
    metadata_hash: int = 0


class PartitionMetadataRecord(NamedTuple):
    """What brokers before 4.1 stored instead of the hash: only its existence matters, so that it can be removed."""

    group_id: str
    deleted: bool = True


class TargetEpochRecord(NamedTuple):
    """The epoch and time of the target assignment, or its end."""

    group_id: str
    epoch: int | None
    timestamp_ms: int = 0


class TargetRecord(NamedTuple):
    """The target assignment of a member."""

    group_id: str
    member_id: str
    partitions: Partitions | None


class CurrentRecord(NamedTuple):
    """The current assignment of a member."""

    group_id: str
    member_id: str
    current: CurrentAssignment | None


class ResolvedPattern(NamedTuple):
    """The topics that match a pattern, the version of the metadata, and the time of the match."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class PatternRecord(NamedTuple):
    """The topics that match a pattern, or its removal with the last subscriber."""

    group_id: str
    pattern: str
    resolved: ResolvedPattern | None


ConsumerRecord: TypeAlias = (
    MemberRecord
    | GroupEpochRecord
    | PartitionMetadataRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentRecord
    | PatternRecord
)

_EPOCH, _PARTITIONS, _MEMBER, _TARGET_EPOCH, _TARGET, _CURRENT, _PATTERN = 3, 4, 5, 6, 7, 8, 16
CONSUMER_KEY_TYPES: Final = frozenset({_EPOCH, _PARTITIONS, _MEMBER, _TARGET_EPOCH, _TARGET, _CURRENT, _PATTERN})


def encode_consumer_record(record: ConsumerRecord) -> Pair:
    """Return key and value of a record."""
    key, value = _entities(record)
    encoded = None if value is None else _VERSION + encode_entity(value)
    if encoded is not None and isinstance(record, MemberRecord) and value.classic_member_metadata is None:
        encoded = encoded.removesuffix(_NO_TAGS) + _NULL_CLASSIC_TAG
    return _SHORT.pack(key.__api_key__) + encode_entity(key), encoded


def _entities(record: ConsumerRecord) -> tuple[Any, Any]:
    group_id = record.group_id
    key: Any
    match record:
        case MemberRecord(_, member_id, metadata):
            return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), _member_entity(metadata)
        case GroupEpochRecord(_, epoch, metadata_hash):
            value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
            return ConsumerGroupMetadataKey(group_id=group_id), value
        case PartitionMetadataRecord():
            return ConsumerGroupPartitionMetadataKey(group_id=group_id), None
        case TargetEpochRecord(_, epoch, timestamp_ms):
            return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), (
                None
                if epoch is None
                else ConsumerGroupTargetAssignmentMetadataValue(
                    assignment_epoch=epoch, assignment_timestamp=timestamp_ms
                )
            )
        case TargetRecord(_, member_id, partitions):
            key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
            return key, _target_entity(partitions)
        case CurrentRecord(_, member_id, current):
            return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), _current_entity(
                current
            )
        case PatternRecord(_, pattern, resolved):
            key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
            return key, _pattern_entity(resolved)
        case _:
            assert_never(record)


def _member_entity(metadata: MemberMetadata | None) -> Any:
    if metadata is None:
        return None
    classic = metadata.classic
    return member_value.ConsumerGroupMemberMetadataValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.topic_names,
        subscribed_topic_regex=metadata.topic_regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        server_assignor=metadata.server_assignor,
        classic_member_metadata=None
        if classic is None
        else member_value.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=tuple(
                member_value.ClassicProtocol(name=name, metadata=protocol) for name, protocol in classic.protocols
            ),
        ),
    )


def _target_entity(partitions: Partitions | None) -> Any:
    if partitions is None:
        return None
    return target_value.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            target_value.TopicPartition(topic_id=topic_id, partitions=tuple(sorted(numbers)))
            for topic_id, numbers in partitions.items()
        )
    )


def _current_entity(current: CurrentAssignment | None) -> Any:
    if current is None:
        return None
    return current_value.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=int(current.state),
        assigned_partitions=_with_epochs(current.assigned),
        partitions_pending_revocation=_with_epochs(current.revoking),
    )


def _with_epochs(assigned: AssignedPartitions) -> tuple[Any, ...]:
    return tuple(
        current_value.TopicPartitions(
            topic_id=topic_id,
            partitions=tuple(sorted(partitions)),
            assignment_epochs=tuple(partitions[each] for each in sorted(partitions)),
        )
        for topic_id, partitions in assigned.items()
    )


def _pattern_entity(resolved: ResolvedPattern | None) -> Any:
    if resolved is None:
        return None
    return ConsumerGroupRegularExpressionValue(
        topics=resolved.topics, version=resolved.version, timestamp=resolved.timestamp_ms
    )


def decode_consumer_record(key_type: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """Return the decoded record of one of `CONSUMER_KEY_TYPES`. Raises WireError if the bytes are malformed."""
    key_class, value_class = _CLASSES[key_type]
    of: Any = decode_entity(key_class, key, 2)[0]
    stored: Any = None
    if value is not None:
        if len(value) < _SHORT.size:
            raise WireError("a record of a consumer group is cut short")
        (version,) = _SHORT.unpack_from(value)
        if version != 0:
            raise WireError(f"a record of a consumer group has the unknown version {version}")
        if key_type == _MEMBER and value.endswith(_NULL_CLASSIC_TAG):
            value = value.removesuffix(_NULL_CLASSIC_TAG) + _NO_TAGS
        stored = decode_entity(value_class, value, 2)[0] if value_class is not None else value
    record: ConsumerRecord = _DECODERS[key_type](of, stored)
    return record


_CLASSES: dict[int, tuple[Any, Any]] = {
    _EPOCH: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    _PARTITIONS: (ConsumerGroupPartitionMetadataKey, None),
    _MEMBER: (ConsumerGroupMemberMetadataKey, member_value.ConsumerGroupMemberMetadataValue),
    _TARGET_EPOCH: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    _TARGET: (ConsumerGroupTargetAssignmentMemberKey, target_value.ConsumerGroupTargetAssignmentMemberValue),
    _CURRENT: (ConsumerGroupCurrentMemberAssignmentKey, current_value.ConsumerGroupCurrentMemberAssignmentValue),
    _PATTERN: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}


def _decode_member(of: Any, stored: Any) -> MemberRecord:
    if stored is None:
        return MemberRecord(of.group_id, of.member_id, None)
    classic = stored.classic_member_metadata
    metadata = MemberMetadata(
        stored.instance_id,
        stored.rack_id,
        stored.client_id,
        stored.client_host,
        tuple(stored.subscribed_topic_names),
        stored.subscribed_topic_regex,
        stored.rebalance_timeout_ms,
        stored.server_assignor,
        None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms,
            tuple((each.name, bytes(each.metadata)) for each in classic.supported_protocols),
        ),
    )
    return MemberRecord(of.group_id, of.member_id, metadata)


def _decode_target(of: Any, stored: Any) -> TargetRecord:
    partitions = stored and {each.topic_id: frozenset(each.partitions) for each in stored.topic_partitions}
    return TargetRecord(of.group_id, of.member_id, partitions)


def _decode_current(of: Any, stored: Any) -> CurrentRecord:
    if stored is None:
        return CurrentRecord(of.group_id, of.member_id, None)
    current = CurrentAssignment(
        stored.member_epoch,
        stored.previous_member_epoch,
        ReconciliationState(stored.state),
        _assigned(stored.assigned_partitions, stored.member_epoch),
        _assigned(stored.partitions_pending_revocation, stored.member_epoch),
    )
    return CurrentRecord(of.group_id, of.member_id, current)


def _assigned(topics: Any, member_epoch: int) -> AssignedPartitions:
    """Return partitions with their epochs; brokers before 4.3 did not store them."""
    return {
        each.topic_id: dict(
            zip(each.partitions, each.assignment_epochs or (member_epoch,) * len(each.partitions), strict=False)
        )
        for each in topics
    }


_DECODERS: dict[int, Any] = {
    _EPOCH: lambda of, stored: GroupEpochRecord(
        of.group_id, stored and stored.epoch, stored.metadata_hash if stored else 0
    ),
    _PARTITIONS: lambda of, stored: PartitionMetadataRecord(of.group_id, deleted=stored is None),
    _MEMBER: _decode_member,
    _TARGET_EPOCH: lambda of, stored: TargetEpochRecord(
        of.group_id, stored and stored.assignment_epoch, stored.assignment_timestamp if stored else 0
    ),
    _TARGET: _decode_target,
    _CURRENT: _decode_current,
    _PATTERN: lambda of, stored: PatternRecord(
        of.group_id,
        of.regular_expression,
        stored and ResolvedPattern(tuple(stored.topics), stored.version, stored.timestamp),
    ),
}
