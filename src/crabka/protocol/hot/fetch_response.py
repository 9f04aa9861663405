"""Packs Fetch responses v4 to v18 around record slices and file ranges that are passed on uncopied.

    v5  log_start_offset    v7  error_code, session_id (KIP-227)    v11 preferred_read_replica (KIP-392)
    v12 flexible; diverging_epoch, current_leader, snapshot_id (tagged)
    v13 topic id instead of name (KIP-516)                          v16 node_endpoints (tagged, KIP-951)

Records without bytes are sent as empty, never as null: librdkafka takes null for a protocol error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, cast
from uuid import UUID

from crabka.ports import Buffer, FileRange, Payload
from crabka.protocol.hot.primitives import (
    NodeEndpoint,
    compact_name,
    legacy_name,
    node_endpoints_tag,
    pack_i32,
    uvarint,
)

# Below this size joining a slice with its surroundings is cheaper than one more entry in the socket's write vector.
INLINE_BYTES = 1024

NO_AFFINITY = -1


class RecordParts:
    """Records of one partition that come from several places, in order."""

    __slots__ = ("_length", "parts")

    def __init__(self, parts: Sequence[Payload]) -> None:
        self.parts = parts
        self._length = sum(map(len, parts))

    def __len__(self) -> int:
        return self._length


class FetchPartitionResult(NamedTuple):
    """Outcome for one partition. All pairs are in the order of the wire."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Payload | RecordParts = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = None  # (producer id, first offset)
    preferred_read_replica: int = NO_AFFINITY
    diverging_epoch: tuple[int, int] | None = None  # (epoch, end offset)
    current_leader: tuple[int, int] | None = None  # (leader id, leader epoch)
    snapshot_id: tuple[int, int] | None = None  # (end offset, epoch)


class FetchTopicResult(NamedTuple):
    """Outcomes of one topic; versions up to 12 use the name, later ones the id."""

    name: str
    topic_id: UUID
    partitions: Sequence[FetchPartitionResult]


_pack_v4_partition = struct.Struct(">ihqq").pack
_pack_v5_partition = struct.Struct(">ihqqq").pack
# fixed fields, no aborted transactions, preferred read replica
_pack_v12_partition = struct.Struct(">ihqqqBi").pack
_pack_aborted = struct.Struct(">qq").pack
_pack_aborted_flexible = struct.Struct(">qqB").pack
_pack_v4_head = struct.Struct(">iii").pack  # correlation id, throttle time, topics
_pack_v7_head = struct.Struct(">iihii").pack  # correlation id, throttle time, error, session, topics
_pack_v12_head = struct.Struct(">iBihi").pack  # correlation id, header tags, throttle time, error, session
# tag, size, value, no tags
_pack_diverging_epoch = struct.Struct(">BBiqB").pack
_pack_current_leader = struct.Struct(">BBiiB").pack
_pack_snapshot_id = struct.Struct(">BBqiB").pack

_NONE = (-1, -1)


class _Frame:
    """Collects pieces, joining small ones and keeping large record slices as they are."""

    __slots__ = ("buffers", "length", "pieces")

    def __init__(self) -> None:
        self.buffers: list[Payload] = []
        self.pieces: list[Buffer] = []
        self.length = 0

    def add_records(self, records: Payload | RecordParts, size: int) -> None:
        if isinstance(records, RecordParts):
            for part in records.parts:
                self.add_records(part, len(part))
            return
        if size <= INLINE_BYTES and not isinstance(records, FileRange):
            self.pieces.append(records)
            return
        self._join_pieces()
        self.buffers.append(records)
        self.length += size

    def finish(self) -> list[Payload]:
        self._join_pieces()
        self.buffers[0] = pack_i32(self.length) + cast("Buffer", self.buffers[0])  # the header comes first
        return self.buffers

    def _join_pieces(self) -> None:
        if self.pieces:
            joined = b"".join(self.pieces)
            self.length += len(joined)
            self.buffers.append(joined)
            self.pieces.clear()


def pack_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[FetchTopicResult],
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Payload]:
    """Return the whole frame, length and header included, as payloads to be written in order."""
    frame = _Frame()
    if version >= 12:
        frame.pieces.append(_pack_v12_head(correlation_id, 0, throttle_ms, error_code, session_id))
        _add_flexible_topics(frame, version, topics)
        frame.pieces.append(node_endpoints_tag(node_endpoints if version >= 16 else ()))
    else:
        if version >= 7:
            frame.pieces.append(_pack_v7_head(correlation_id, throttle_ms, error_code, session_id, len(topics)))
        else:
            frame.pieces.append(_pack_v4_head(correlation_id, throttle_ms, len(topics)))
        for topic in topics:
            frame.pieces += (legacy_name(topic.name), pack_i32(len(topic.partitions)))
            for partition in topic.partitions:
                _add_legacy_partition(frame, version, partition)
    return frame.finish()


def _add_legacy_partition(frame: _Frame, version: int, partition: FetchPartitionResult) -> None:
    index, error_code, high_watermark, stable_offset, start_offset, records, aborted, replica, *_ = partition
    add = frame.pieces.append
    if version >= 5:
        add(_pack_v5_partition(index, error_code, high_watermark, stable_offset, start_offset))
    else:
        add(_pack_v4_partition(index, error_code, high_watermark, stable_offset))
    if aborted is None:
        add(b"\xff\xff\xff\xff")
    else:
        add(pack_i32(len(aborted)))
        for producer_id, first_offset in aborted:
            add(_pack_aborted(producer_id, first_offset))
    if version >= 11:
        add(pack_i32(replica))
    size = len(records)
    add(pack_i32(size))
    frame.add_records(records, size)


def _add_flexible_topics(frame: _Frame, version: int, topics: Sequence[FetchTopicResult]) -> None:
    pieces = frame.pieces
    pieces.append(uvarint(len(topics) + 1))
    for topic in topics:
        pieces.append(topic.topic_id.bytes if version >= 13 else compact_name(topic.name))
        pieces.append(uvarint(len(topic.partitions) + 1))
        for partition in topic.partitions:
            _add_flexible_partition(frame, partition)
        pieces.append(b"\0")


def _add_flexible_partition(frame: _Frame, partition: FetchPartitionResult) -> None:
    (
        index,
        error_code,
        high_watermark,
        stable_offset,
        start_offset,
        records,
        aborted,
        replica,
        diverging_epoch,
        current_leader,
        snapshot_id,
    ) = partition
    pieces = frame.pieces
    if aborted is None:
        pieces.append(_pack_v12_partition(index, error_code, high_watermark, stable_offset, start_offset, 0, replica))
    else:
        pieces.append(_pack_v5_partition(index, error_code, high_watermark, stable_offset, start_offset))
        pieces.append(uvarint(len(aborted) + 1))
        pieces += [_pack_aborted_flexible(*transaction, 0) for transaction in aborted]
        pieces.append(pack_i32(replica))
    size = len(records)
    pieces.append(uvarint(size + 1))
    frame.add_records(records, size)
    if diverging_epoch is None and current_leader is None and snapshot_id is None:
        pieces.append(b"\0")
    else:
        pieces.append(_tags(diverging_epoch, current_leader, snapshot_id))


def _tags(
    diverging_epoch: tuple[int, int] | None,
    current_leader: tuple[int, int] | None,
    snapshot_id: tuple[int, int] | None,
) -> bytes:
    tags = []
    if diverging_epoch is not None and diverging_epoch != _NONE:
        tags.append(_pack_diverging_epoch(0, 13, *diverging_epoch, 0))
    if current_leader is not None and current_leader != _NONE:
        tags.append(_pack_current_leader(1, 9, *current_leader, 0))
    if snapshot_id is not None and snapshot_id != _NONE:
        tags.append(_pack_snapshot_id(2, 13, *snapshot_id, 0))
    return uvarint(len(tags)) + b"".join(tags)
