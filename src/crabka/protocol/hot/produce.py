"""Reads Produce requests v3 to v13 without a copy of the records, and packs their responses as the schema says.

kio copies each batch into bytes of its own, and needs the length guard before it. Here a batch is a view into the
frame: a caller that keeps it longer than the frame lives must copy it.
    request:   v3 transactional_id    v9 flexible    v13 topic id instead of name
    response:  v5 log_start_offset    v8 record_errors, error_message    v9 flexible
               v10 current_leader, node_endpoints (tagged, KIP-951)    v13 topic id instead of name
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from crabka.errors import WireError
from crabka.ids import ZERO_UUID
from crabka.protocol.hot.primitives import (
    NodeEndpoint,
    compact_name,
    compact_string,
    legacy_name,
    legacy_string,
    node_endpoints_tag,
    pack_i32,
    uvarint,
)
from crabka.protocol.length_guard import MAX_REQUEST_ELEMENTS
from crabka.protocol.wire import read_uvarint, skip_tagged_fields

_CACHED_TOPIC_IDS = 4096

# Half the price of a NamedTuple's own constructor.
_new = tuple.__new__

_unpack_i16 = struct.Struct(">h").unpack_from
_unpack_i32 = struct.Struct(">i").unpack_from
_unpack_acks_timeout = struct.Struct(">hi").unpack_from
_unpack_index_length = struct.Struct(">ii").unpack_from
_unpack_single_head = struct.Struct(">BhiBB").unpack_from
_NO_TAGS_THREE_TIMES = b"\0\0\0"  # of the partition, the topic and the request


class ProducePartition(NamedTuple):
    """The records for one partition; null records are possible on the wire."""

    partition: int
    records: memoryview | None


class ProduceTopic(NamedTuple):
    """One topic: by name up to version 12 (the id is zero), by id from 13 on (the name is empty)."""

    name: str
    topic_id: UUID
    partitions: list[ProducePartition]


class ProduceBody(NamedTuple):
    """A Produce request of any version."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


@functools.lru_cache(_CACHED_TOPIC_IDS)
def _topic_id(raw: bytes) -> UUID:
    return UUID(bytes=raw)


def read_produce_request(version: int, frame: memoryview, offset: int) -> ProduceBody:
    """Decode the body that starts at `offset`; `frame` must be read-only or be treated so. Raises WireError."""
    try:
        if version >= 9:
            request = _maybe_read_single(version, frame, offset)
            if request is not None:
                return request
            request, end = _read_flexible(version, frame, offset)
        else:
            request, end = _read_legacy(frame, offset)
    except (IndexError, struct.error) as error:
        raise WireError("ProduceRequest ends in the middle of a field") from error
    except ValueError as error:  # a name that is not UTF-8, a topic id that is cut off
        raise WireError(f"malformed ProduceRequest: {error}") from error
    if end > len(frame):
        raise WireError("ProduceRequest ends in the middle of a field")
    return request


def _maybe_read_single(version: int, frame: memoryview, position: int) -> ProduceBody | None:
    """Read the usual request in a straight line: no transaction, one topic, one partition, no tagged fields.

    Returns None for everything else, malformed or not.
    """
    null, acks, timeout_ms, topic_count, name_length = _unpack_single_head(frame, position)
    if null or topic_count != 2:
        return None
    if version >= 13:
        # The byte taken for the length of a name is the first one of the id.
        position += 8
        name, topic_id = "", _topic_id(frame[position : position + 16].tobytes())
        position += 16
    else:
        if not 0 < name_length < 128:
            return None
        start = position + 9
        position = start + name_length - 1
        name, topic_id = str(frame[start:position], "utf-8"), ZERO_UUID
    if frame[position] != 2:
        return None
    (partition,) = _unpack_i32(frame, position + 1)
    length, position = read_uvarint(frame, position + 5)
    end = position + length - 1
    if length == 0 or frame[end : end + 3] != _NO_TAGS_THREE_TIMES:
        return None
    topic = _new(ProduceTopic, (name, topic_id, [_new(ProducePartition, (partition, frame[position:end]))]))
    return _new(ProduceBody, (None, acks, timeout_ms, [topic]))


def _read_flexible(version: int, frame: memoryview, position: int) -> tuple[ProduceBody, int]:
    transactional_id: str | None = None
    if frame[position]:
        transactional_id, position = _compact_text(frame, position)
    else:
        position += 1
    acks, timeout_ms = _unpack_acks_timeout(frame, position)
    topic_count, position = read_uvarint(frame, position + 6)
    _check_count(topic_count - 1, frame, position)
    topics = []
    for _ in range(topic_count - 1):
        if version >= 13:
            name, topic_id = "", _topic_id(frame[position : position + 16].tobytes())
            position += 16
        else:
            topic_id = ZERO_UUID
            name, position = _compact_text(frame, position)
        partitions, position = _read_flexible_partitions(frame, position)
        position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
        topics.append(ProduceTopic(name, topic_id, partitions))
    position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
    return ProduceBody(transactional_id, acks, timeout_ms, topics), position


def _read_flexible_partitions(frame: memoryview, position: int) -> tuple[list[ProducePartition], int]:
    count, position = read_uvarint(frame, position)
    _check_count(count - 1, frame, position)
    partitions = []
    for _ in range(count - 1):
        (index,) = _unpack_i32(frame, position)
        length, position = read_uvarint(frame, position + 4)
        records = None
        if length:
            end = position + length - 1
            records = frame[position:end]
            position = end
        position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
        partitions.append(ProducePartition(index, records))
    return partitions, position


def _read_legacy(frame: memoryview, position: int) -> tuple[ProduceBody, int]:
    transactional_id, position = _legacy_text(frame, position)
    acks, timeout_ms = _unpack_acks_timeout(frame, position)
    (topic_count,) = _unpack_i32(frame, position + 6)
    position += 10
    _check_count(topic_count, frame, position)
    topics = []
    for _ in range(topic_count):
        name, position = _legacy_text(frame, position)
        if name is None:
            raise WireError("malformed ProduceRequest: a topic name is null")
        (count,) = _unpack_i32(frame, position)
        position += 4
        _check_count(count, frame, position)
        partitions = []
        for _ in range(count):
            index, length = _unpack_index_length(frame, position)
            position += 8
            records = None if length < 0 else frame[position : position + length]
            position += max(length, 0)
            partitions.append(ProducePartition(index, records))
        topics.append(ProduceTopic(name, ZERO_UUID, partitions))
    return ProduceBody(transactional_id, acks, timeout_ms, topics), position


def _compact_text(frame: memoryview, position: int) -> tuple[str, int]:
    length, position = read_uvarint(frame, position)
    if length == 0:
        raise WireError("malformed ProduceRequest: a topic name is null")
    end = position + length - 1
    return str(frame[position:end], "utf-8"), end


def _legacy_text(frame: memoryview, position: int) -> tuple[str | None, int]:
    (length,) = _unpack_i16(frame, position)
    position += 2
    if length < 0:
        return None, position
    return str(frame[position : position + length], "utf-8"), position + length


def _check_count(count: int, frame: memoryview, position: int) -> None:
    """Refuse null arrays and counts that the rest of the frame cannot hold (an element has three bytes or more)."""
    if count < 0 or count * 3 > len(frame) - position or count > MAX_REQUEST_ELEMENTS:
        raise WireError(f"malformed ProduceRequest: an array claims {count} elements")


class ProducePartitionResult(NamedTuple):
    """Outcome for one partition."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int = -1  # -1: the topic keeps the producer's timestamps
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()  # (index in the batch, message)
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None  # (leader id, leader epoch)


class ProduceTopicResult(NamedTuple):
    """Outcomes of one topic; versions up to 12 use the name, later ones the id."""

    name: str
    topic_id: UUID
    partitions: Sequence[ProducePartitionResult]


# length, correlation id, header tags, one topic
_FLEXIBLE_HEAD = struct.Struct(">iiBB")
# one partition, its fixed fields, no record errors, no message, no tags; topic tags, throttle time, tags
_FLEXIBLE_TAIL = struct.Struct(">BihqqqBBBBiB")
_pack_flexible_head = _FLEXIBLE_HEAD.pack
_pack_flexible_tail = _FLEXIBLE_TAIL.pack
_LENGTH_SIZE = 4
_FLEXIBLE_FIXED_SIZE = _FLEXIBLE_HEAD.size + _FLEXIBLE_TAIL.size - _LENGTH_SIZE
_TOPIC_ID_FRAME_SIZE = _FLEXIBLE_FIXED_SIZE + 16

_pack_v3_partition = struct.Struct(">ihqq").pack
_pack_v5_partition = struct.Struct(">ihqqq").pack
_pack_leader_tag = struct.Struct(">BBBiiB").pack  # one tag, number 0, 9 bytes, id, epoch, no tags
_pack_header = struct.Struct(">ii").pack


def pack_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceTopicResult],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return the whole frame: length, header and body."""
    if version >= 9 and len(topics) == 1 and not node_endpoints:
        topic = topics[0]
        partitions = topic.partitions
        if len(partitions) == 1:
            index, error_code, base_offset, time_ms, start_offset, errors, message, leader = partitions[0]
            if not errors and message is None and leader is None:
                tail = _pack_flexible_tail(
                    2, index, error_code, base_offset, time_ms, start_offset, 1, 0, 0, 0, throttle_ms, 0
                )
                if version >= 13:
                    return _pack_flexible_head(_TOPIC_ID_FRAME_SIZE, correlation_id, 0, 2) + topic.topic_id.bytes + tail
                name = compact_name(topic.name)
                return _pack_flexible_head(_FLEXIBLE_FIXED_SIZE + len(name), correlation_id, 0, 2) + name + tail
    body = _body(version, topics, throttle_ms, node_endpoints)
    return _pack_header(len(body) + 4, correlation_id) + body


def _body(
    version: int, topics: Sequence[ProduceTopicResult], throttle_ms: int, node_endpoints: Sequence[NodeEndpoint]
) -> bytes:
    if version >= 9:
        parts = [b"\0", uvarint(len(topics) + 1)]
        for topic in topics:
            parts.append(topic.topic_id.bytes if version >= 13 else compact_name(topic.name))
            parts.append(uvarint(len(topic.partitions) + 1))
            parts += [_flexible_partition(version, partition) for partition in topic.partitions]
            parts.append(b"\0")
        parts.append(pack_i32(throttle_ms))
        parts.append(node_endpoints_tag(node_endpoints if version >= 10 else ()))
        return b"".join(parts)
    parts = [pack_i32(len(topics))]
    for topic in topics:
        parts.append(legacy_name(topic.name))
        parts.append(pack_i32(len(topic.partitions)))
        parts += [_legacy_partition(version, partition) for partition in topic.partitions]
    parts.append(pack_i32(throttle_ms))
    return b"".join(parts)


def _legacy_partition(version: int, partition: ProducePartitionResult) -> bytes:
    index, error_code, base_offset, time_ms, start_offset, errors, message, _leader = partition
    if version < 5:
        return _pack_v3_partition(index, error_code, base_offset, time_ms)
    fixed = _pack_v5_partition(index, error_code, base_offset, time_ms, start_offset)
    if version < 8:
        return fixed
    rows = b"".join(pack_i32(record) + legacy_string(text) for record, text in errors)
    return fixed + pack_i32(len(errors)) + rows + legacy_string(message)


def _flexible_partition(version: int, partition: ProducePartitionResult) -> bytes:
    index, error_code, base_offset, time_ms, start_offset, errors, message, leader = partition
    fixed = _pack_v5_partition(index, error_code, base_offset, time_ms, start_offset)
    rows = b"".join(pack_i32(record) + compact_string(text) + b"\0" for record, text in errors)
    tags = b"\0" if leader is None or leader == (-1, -1) or version < 10 else _pack_leader_tag(1, 0, 9, *leader, 0)
    return fixed + uvarint(len(errors) + 1) + rows + compact_string(message) + tags
