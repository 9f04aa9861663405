"""Packs Produce responses v3 to v13, byte for byte as the schema says.

v5  log_start_offset          v8   record_errors, error_message          v9   flexible
v10 current_leader, node_endpoints (tagged, KIP-951)                     v13  topic id instead of name
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

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
