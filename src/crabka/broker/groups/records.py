"""Records of `__consumer_offsets`, byte for byte as Kafka writes and reads them.

A key is its type as int16 and the body; a value is its version as int16 and the body. Groups are written in version
3, offsets in version 4 with the topic id as a tagged field, or in version 1 if a client sets a retention time.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from crabka.broker.groups.consumer.records import CONSUMER_KEY_TYPES, ConsumerRecord, decode_consumer_record
from crabka.broker.groups.messages import GroupSnapshot, MemberSnapshot
from crabka.broker.groups.offsets import NO_EXPIRY, CommittedOffset, Place
from crabka.broker.groups.opaque import KEY_TYPES, OpaqueType
from crabka.errors import WireError
from crabka.ids import ZERO_UUID
from crabka.protocol.entity_codec import decode_entity, encode_entity
from crabka.protocol.generated.group import group_metadata_value, legacy_offset_commit_value, offset_commit_value
from crabka.protocol.generated.group.group_metadata_key import GroupMetadataKey
from crabka.protocol.generated.group.offset_commit_key import OffsetCommitKey
from crabka.protocol.generated.group.offset_commit_value import OffsetCommitValue

if TYPE_CHECKING:
    from crabka.ports import Buffer

_SHORT = Struct(">h")
_LEGACY_OFFSET, _OFFSET, _GROUP = 0, 1, 2
_NEWEST_GROUP_VERSION = 4
_GROUP_VERSION = 3
_OFFSET_VERSION = 4
_EXPIRING_OFFSET_VERSION = 1

Pair: TypeAlias = tuple[bytes, bytes | None]


class OffsetRecord(NamedTuple):
    """A commit, or its deletion."""

    group_id: str
    place: Place
    committed: CommittedOffset | None


class GroupRecord(NamedTuple):
    """A classic group, or its deletion."""

    group_id: str
    snapshot: GroupSnapshot | None


class OpaqueRecord(NamedTuple):
    """A record of a group that this node only stores."""

    group_id: str
    group_type: OpaqueType
    name: str
    key: bytes
    deleted: bool


StoredRecord: TypeAlias = OffsetRecord | GroupRecord | ConsumerRecord | OpaqueRecord


def offset_key(group_id: str, place: Place) -> bytes:
    """Return the key of a committed offset."""
    topic, partition = place
    return _SHORT.pack(_OFFSET) + encode_entity(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_key(group_id: str) -> bytes:
    """Return the key of a classic group."""
    return _SHORT.pack(_GROUP) + encode_entity(GroupMetadataKey(group=group_id))


def offset_pair(group_id: str, place: Place, committed: CommittedOffset) -> Pair:
    """Return key and value of a commit."""
    if committed.expire_timestamp_ms != NO_EXPIRY:
        value: Any = offset_commit_value.OffsetCommitValueV1(
            offset=committed.offset,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
        )
        version = _EXPIRING_OFFSET_VERSION
    else:
        value = OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            topic_id=committed.topic_id,
        )
        version = _OFFSET_VERSION
    return offset_key(group_id, place), _SHORT.pack(version) + encode_entity(value)


def group_pair(group_id: str, snapshot: GroupSnapshot) -> Pair:
    """Return key and value of a classic group."""
    value = group_metadata_value.GroupMetadataValueV3(
        protocol_type=snapshot.protocol_type,
        generation=snapshot.generation,
        protocol=snapshot.protocol,
        leader=snapshot.leader,
        current_state_timestamp=snapshot.state_timestamp_ms,
        members=tuple(
            group_metadata_value.MemberMetadataV3(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in snapshot.members
        ),
    )
    return group_key(group_id), _SHORT.pack(_GROUP_VERSION) + encode_entity(value)


def decode_pair(key: bytes, value: bytes | None) -> StoredRecord | None:
    """Return the decoded record; None for a kind that Kafka 4.3 does not know.

    Raises WireError if the bytes are malformed.
    """
    (key_type,) = _unpack_short(key)
    if key_type in (_OFFSET, _LEGACY_OFFSET):
        offset_of, _ = decode_entity(OffsetCommitKey, key, 2)
        committed = None if value is None else _decode_offset(value, legacy=key_type == _LEGACY_OFFSET)
        return OffsetRecord(offset_of.group, (offset_of.topic, offset_of.partition), committed)
    if key_type == _GROUP:
        group, _ = decode_entity(GroupMetadataKey, key, 2)
        return GroupRecord(group.group, None if value is None else _decode_group(value))
    if key_type in CONSUMER_KEY_TYPES:
        return decode_consumer_record(key_type, key, value)
    opaque = KEY_TYPES.get(key_type)
    if opaque is None:
        return None
    # The group is the first field of all these keys, as in the key of a classic group.
    group, _ = decode_entity(GroupMetadataKey, key, 2)
    return OpaqueRecord(group.group, opaque[0], opaque[1], bytes(key), deleted=value is None)


def _unpack_short(data: Buffer) -> tuple[int]:
    if len(data) < _SHORT.size:
        raise WireError("a record of __consumer_offsets is cut short")
    return _SHORT.unpack_from(data)


def _decode_offset(value: bytes, *, legacy: bool) -> CommittedOffset:
    (version,) = _unpack_short(value)
    stored: Any
    if version == _OFFSET_VERSION:
        stored, _ = decode_entity(OffsetCommitValue, value, 2)
    elif version in offset_commit_value.VERSIONS:
        versions = legacy_offset_commit_value.VERSIONS if legacy and version == 0 else offset_commit_value.VERSIONS
        stored, _ = decode_entity(versions[version], value, 2)
    else:
        raise WireError(f"an offset has the unknown version {version}")
    return CommittedOffset(
        stored.offset,
        getattr(stored, "leader_epoch", -1),
        stored.metadata,
        stored.commit_timestamp,
        getattr(stored, "expire_timestamp", NO_EXPIRY),
        getattr(stored, "topic_id", ZERO_UUID) or ZERO_UUID,
    )


def _decode_group(value: bytes) -> GroupSnapshot:
    (version,) = _unpack_short(value)
    if not 0 <= version <= _NEWEST_GROUP_VERSION:
        raise WireError(f"a group has the unknown version {version}")
    stored: Any
    stored, _ = decode_entity(group_metadata_value.VERSIONS[version], value, 2)
    members = tuple(
        MemberSnapshot(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout,
            member.session_timeout,
            bytes(member.subscription),
            bytes(member.assignment),
        )
        for member in stored.members
    )
    return GroupSnapshot(
        stored.protocol_type,
        stored.generation,
        stored.protocol,
        stored.leader,
        stored.current_state_timestamp,
        members,
    )
