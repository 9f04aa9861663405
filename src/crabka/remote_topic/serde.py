"""Events of the metadata topic as bytes, equal to what Kafka's RemoteLogMetadataSerde writes and reads.

    value = frame version 1 | kind | version 0, all as unsigned varints | body, a flexible Kafka message
    kind 0 = RemoteLogSegmentMetadataRecord, 1 = ...UpdateRecord, 2 = RemotePartitionDeleteMetadataRecord

A broker without a snapshot reads all events of years, so the form that brokers write today is read here in a few
steps. What has another form, such as tagged fields of later versions, and what is malformed goes to `event_reader`.
"""

from __future__ import annotations

import struct
import uuid
from functools import lru_cache
from typing import Final

from crabka.protocol.hot.primitives import compact_string, uvarint
from crabka.remote.inmemory import SegmentStep
from crabka.remote.segments import (
    LAST_OFFSET,
    CustomMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    SegmentDraft,
    TopicIdPartition,
)
from crabka.remote_topic.event_reader import MetadataEvent, read_event

_SEGMENT_PREFIX: Final = b"\x01\x00\x00"
_UPDATE_PREFIX: Final = b"\x01\x01\x00"
_PARTITION_DELETE_PREFIX: Final = b"\x01\x02\x00"
_PREFIX_BYTES: Final = 3

_NO_TAGS: Final = b"\x00"
# One tagged field, number 0, one byte long: the transaction index is empty.
_TXN_INDEX_EMPTY: Final = b"\x01\x00\x01\x01"
# How a segment ends, and whether it says that.
_TAGGED: Final = {_NO_TAGS: False, _TXN_INDEX_EMPTY: True}
_ONE_EPOCH: Final = 2

_PARTITION_TAIL: Final = struct.Struct(">16siB")
# Where the fields after a partition begin, without its name and the length of that, which is one byte and counts one.
_AFTER_NAME: Final = _PREFIX_BYTES + _PARTITION_TAIL.size
_SEGMENT_FIELDS: Final = struct.Struct(">16sBqqiqqB")
# The same, one epoch, the size, no custom metadata and the state: what most segments have.
_SIMPLE_SEGMENT: Final = struct.Struct(">16sBqqiqqBiqBiBb")
_UPDATE_FIELDS: Final = struct.Struct(">16sBiqB")
# The same, no custom metadata, the state and no tags: what most updates have.
_SIMPLE_UPDATE: Final = struct.Struct(">16sBiqBbB")
_PARTITION_DELETE_FIELDS: Final = struct.Struct(">iqbB")
_EPOCH: Final = struct.Struct(">iqB")
_SIZE: Final = struct.Struct(">iB")
_MAX_ONE_BYTE: Final = 0x7F
_KNOWN_PARTITIONS: Final = 65_536

_new_object: Final = object.__new__
_set_int: Final = vars(uuid.UUID)["int"].__set__
_set_is_safe: Final = vars(uuid.UUID)["is_safe"].__set__
_UNKNOWN_SAFETY: Final = uuid.SafeUUID.unknown

_SEGMENT_STATES: Final = tuple(RemoteLogSegmentState)
_STATE_COUNT: Final = len(_SEGMENT_STATES)
_DELETE_STATES: Final = tuple(RemotePartitionDeleteState)


class _OtherFormError(Exception):
    """The bytes do not have the form that brokers write today; `event_reader` knows all forms."""


def encode_event(event: MetadataEvent) -> bytes:
    """Return the value of the record for an event."""
    match event:
        case RemoteLogSegmentMetadata():
            return _encode_segment(event)
        case RemoteLogSegmentMetadataUpdate():
            return _encode_update(event)
        case RemotePartitionDeleteMetadata():
            fields = _PARTITION_DELETE_FIELDS.pack(event.broker_id, event.event_timestamp_ms, event.state, 0)
            return _PARTITION_DELETE_PREFIX + _encode_partition(event.topic_id_partition) + fields


def decode_event(value: bytes) -> MetadataEvent:
    """Return the event in a record's value. Raises MetadataEventError."""
    prefix = value[:_PREFIX_BYTES]
    try:
        if prefix == _SEGMENT_PREFIX:
            return _read_segment(value)
        if prefix == _UPDATE_PREFIX:
            return _read_update(value)
        if prefix == _PARTITION_DELETE_PREFIX:
            return _read_partition_delete(value)
    except (_OtherFormError, struct.error, LookupError, ValueError):
        pass
    return read_event(value)


def maybe_step(value: bytes) -> tuple[TopicIdPartition, SegmentStep] | None:
    """Return an update in the form that nearly all have, without the objects that other code would want.

    None for all others and for other events; `decode_event` reads those.
    """
    if not value.startswith(_UPDATE_PREFIX) or len(value) < _SIMPLE_UPDATE.size:
        return None
    position = value[_PREFIX_BYTES] + _AFTER_NAME
    if len(value) != position + _SIMPLE_UPDATE.size:
        return None
    raw_id, id_tags, broker_id, event_timestamp_ms, custom_length, state, tags = _SIMPLE_UPDATE.unpack_from(
        value, position
    )
    if id_tags or custom_length or tags or not 0 <= state < _STATE_COUNT:
        return None
    try:
        partition = _known_partition(value[_PREFIX_BYTES:position])
    except (_OtherFormError, UnicodeDecodeError):
        return None
    return partition, (int.from_bytes(raw_id), _SEGMENT_STATES[state], broker_id, event_timestamp_ms)


def _encode_partition(partition: TopicIdPartition) -> bytes:
    tail = _PARTITION_TAIL.pack(partition.topic_id.bytes, partition.partition, 0)
    return compact_string(partition.topic) + tail


def _encode_segment(event: RemoteLogSegmentMetadata) -> bytes:
    epochs = event.leader_epochs
    return b"".join(
        (
            _SEGMENT_PREFIX,
            _encode_partition(event.topic_id_partition),
            _SEGMENT_FIELDS.pack(
                event.segment_id.id.bytes,
                0,
                event.start_offset,
                event.end_offset,
                event.broker_id,
                event.max_timestamp_ms,
                event.event_timestamp_ms,
                0,
            )[:-1],
            uvarint(len(epochs) + 1),
            *(_EPOCH.pack(epoch, offset, 0) for epoch, offset in epochs),
            _SIZE.pack(event.segment_size_bytes, 0)[:-1],
            _encode_custom(event.custom_metadata),
            bytes((event.state,)),
            _TXN_INDEX_EMPTY if event.txn_index_empty else _NO_TAGS,
        )
    )


def _encode_update(event: RemoteLogSegmentMetadataUpdate) -> bytes:
    fields = _UPDATE_FIELDS.pack(event.segment_id.id.bytes, 0, event.broker_id, event.event_timestamp_ms, 0)[:-1]
    end = _encode_custom(event.custom_metadata) + bytes((event.state, 0))
    return _UPDATE_PREFIX + _encode_partition(event.topic_id_partition) + fields + end


def _encode_custom(custom: CustomMetadata | None) -> bytes:
    return b"\x00" if custom is None else uvarint(len(custom.value) + 1) + custom.value


def _read_segment(value: bytes) -> RemoteLogSegmentMetadata:
    position = value[_PREFIX_BYTES] + _AFTER_NAME
    partition = _known_partition(value[_PREFIX_BYTES:position])
    end_of_simple = position + _SIMPLE_SEGMENT.size
    tagged = _TAGGED.get(value[end_of_simple:])
    if tagged is None:
        return _read_long_segment(value, partition, position)
    (
        raw_id,
        id_tags,
        start,
        end,
        broker_id,
        max_timestamp_ms,
        event_timestamp_ms,
        epoch_count,
        epoch,
        first,
        epoch_tags,
        size,
        custom_length,
        state,
    ) = _SIMPLE_SEGMENT.unpack_from(value, position)
    if (
        id_tags
        or epoch_count != _ONE_EPOCH
        or epoch_tags
        or custom_length
        or not 0 <= state < _STATE_COUNT
        # What a constructor would refuse; the other reader says so.
        or not 0 <= start <= end <= LAST_OFFSET
        or size < 0
        or epoch < 0
        or first < 0
    ):
        return _read_long_segment(value, partition, position)
    draft = SegmentDraft()
    draft.segment_id = RemoteLogSegmentId(partition, _uuid(raw_id))
    draft.start_offset = start
    draft.end_offset = end
    draft.max_timestamp_ms = max_timestamp_ms
    draft.broker_id = broker_id
    draft.event_timestamp_ms = event_timestamp_ms
    draft.segment_size_bytes = size
    # One number in memory where there are two equal ones.
    draft.leader_epochs = ((epoch, start if first == start else first),)
    draft.state = _SEGMENT_STATES[state]
    draft.custom_metadata = None
    draft.txn_index_empty = tagged
    return draft.done()


def _read_long_segment(value: bytes, partition: TopicIdPartition, position: int) -> RemoteLogSegmentMetadata:
    raw_id, tags, start, end, broker_id, max_timestamp_ms, event_timestamp_ms, epoch_count = (
        _SEGMENT_FIELDS.unpack_from(value, position)
    )
    position += _SEGMENT_FIELDS.size
    if tags or epoch_count > _MAX_ONE_BYTE:
        raise _OtherFormError
    epochs, position = _read_epochs(value, position, epoch_count - 1)
    size, custom_length = _SIZE.unpack_from(value, position)
    position += _SIZE.size
    custom = None
    if custom_length:
        custom, position = _read_custom(value, position, custom_length)
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, _uuid(raw_id)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        segment_size_bytes=size,
        leader_epochs=epochs,
        state=_SEGMENT_STATES[value[position]],
        custom_metadata=custom,
        txn_index_empty=_TAGGED[value[position + 1 :]],
    )


def _uuid(raw: bytes) -> uuid.UUID:
    """Return a UUID without the checks of its constructor, which take half of the time to make one."""
    made = _new_object(uuid.UUID)
    _set_int(made, int.from_bytes(raw))
    _set_is_safe(made, _UNKNOWN_SAFETY)
    return made


def _read_update(value: bytes) -> RemoteLogSegmentMetadataUpdate:
    position = value[_PREFIX_BYTES] + _AFTER_NAME
    partition = _known_partition(value[_PREFIX_BYTES:position])
    raw_id, tags, broker_id, event_timestamp_ms, custom_length = _UPDATE_FIELDS.unpack_from(value, position)
    position += _UPDATE_FIELDS.size
    custom = None
    if custom_length:
        custom, position = _read_custom(value, position, custom_length)
    if tags or value[position + 1 :] != _NO_TAGS:
        raise _OtherFormError
    return RemoteLogSegmentMetadataUpdate(
        segment_id=RemoteLogSegmentId(partition, _uuid(raw_id)),
        event_timestamp_ms=event_timestamp_ms,
        state=_SEGMENT_STATES[value[position]],
        broker_id=broker_id,
        custom_metadata=custom,
    )


def _read_partition_delete(value: bytes) -> RemotePartitionDeleteMetadata:
    position = value[_PREFIX_BYTES] + _AFTER_NAME
    partition = _known_partition(value[_PREFIX_BYTES:position])
    broker_id, event_timestamp_ms, state, tags = _PARTITION_DELETE_FIELDS.unpack_from(value, position)
    if tags or state < 0 or len(value) != position + _PARTITION_DELETE_FIELDS.size:
        raise _OtherFormError
    return RemotePartitionDeleteMetadata(
        topic_id_partition=partition,
        state=_DELETE_STATES[state],
        event_timestamp_ms=event_timestamp_ms,
        broker_id=broker_id,
    )


@lru_cache(_KNOWN_PARTITIONS)
def _known_partition(raw: bytes) -> TopicIdPartition:
    """Return the one object for a partition, from the length of its name on; millions of segments share it."""
    if not 1 <= raw[0] <= _MAX_ONE_BYTE:
        raise _OtherFormError
    raw_id, partition, tags = _PARTITION_TAIL.unpack_from(raw, raw[0])
    if tags:
        raise _OtherFormError
    return TopicIdPartition(uuid.UUID(bytes=raw_id), raw[1 : raw[0]].decode(), partition)


def _read_epochs(value: bytes, position: int, count: int) -> tuple[tuple[tuple[int, int], ...], int]:
    epochs: list[tuple[int, int]] = []
    for _ in range(count):
        epoch, offset, tags = _EPOCH.unpack_from(value, position)
        if tags or (epochs and epoch <= epochs[-1][0]):
            raise _OtherFormError
        epochs.append((epoch, offset))
        position += _EPOCH.size
    return tuple(epochs), position


def _read_custom(value: bytes, position: int, length: int) -> tuple[CustomMetadata, int]:
    end = position + length - 1
    if length > _MAX_ONE_BYTE or end > len(value):
        raise _OtherFormError
    return CustomMetadata(value[position:end]), end
