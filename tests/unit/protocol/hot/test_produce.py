"""Requests of Produce and their malformed forms, and the forms of responses; a property test compares all with kio."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from crabka.errors import WireError
from crabka.ids import ZERO_UUID
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import ms, read_response
from crabka.protocol.hot import (
    ProducePartition,
    ProducePartitionResult,
    ProduceTopicResult,
    pack_produce_response,
    read_produce_request,
)

TOPIC_ID = UUID(int=7)
HEAD = b"\xff\xff\0\0\3\xe8"  # acks -1, timeout 1000 ms
V9 = b"\0" + HEAD + b"\2" + b"\2t" + b"\2" + b"\0\0\0\4" + b"\4abc" + b"\0\0\0"
V13 = b"\0" + HEAD + b"\2" + TOPIC_ID.bytes + b"\2" + b"\0\0\0\4" + b"\4abc" + b"\0\0\0"
V3 = b"\xff\xff" + HEAD + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\4" + b"\0\0\0\3abc"


@pytest.mark.parametrize(
    ("version", "body", "name", "topic_id"),
    [(3, V3, "t", ZERO_UUID), (9, V9, "t", ZERO_UUID), (13, V13, "", TOPIC_ID)],
)
def test_records_are_views_into_the_frame(version: int, body: bytes, name: str, topic_id: UUID) -> None:
    request = read_produce_request(version, memoryview(body), 0)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 1000)
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == (name, topic_id)
    (partition,) = topic.partitions
    assert partition.partition == 4
    assert isinstance(partition.records, memoryview)
    assert bytes(partition.records) == b"abc"
    assert partition.records.obj is body


@pytest.mark.parametrize(("version", "body"), [(3, V3), (9, V9), (13, V13)])
def test_a_body_cut_anywhere_is_a_wire_error_and_a_tail_is_ignored(version: int, body: bytes) -> None:
    for length in range(len(body)):
        with pytest.raises(WireError):
            read_produce_request(version, memoryview(body)[:length], 0)
    assert read_produce_request(version, memoryview(body + b"x"), 0) == read_produce_request(
        version, memoryview(body), 0
    )


@pytest.mark.parametrize("version", [3, 9, 13])
@pytest.mark.parametrize("count", [1, 1000, 2**31 - 1])
def test_arrays_longer_than_the_frame_are_refused(version: int, count: int) -> None:
    length = struct.pack(">i", count) if version < 9 else b"\xff\xff\xff\xff\x07" if count > 1000 else b"\xe9\7"
    body = (b"\xff\xff" if version < 9 else b"\0") + HEAD + length
    with pytest.raises(WireError):
        read_produce_request(version, memoryview(body), 0)


def test_tagged_fields_are_skipped_at_every_level() -> None:
    tags = b"\1\x63\2zz"
    body = b"\0" + HEAD + b"\2" + b"\2t" + b"\2" + b"\0\0\0\4" + b"\4abc" + tags + tags + tags
    (topic,) = read_produce_request(9, memoryview(body), 0).topics
    assert topic.partitions == [ProducePartition(4, memoryview(b"abc"))]


def test_null_records_are_distinguished_from_empty_ones() -> None:
    body = b"\0" + HEAD + b"\2" + b"\2t" + b"\3" + b"\0\0\0\0\0\0" + b"\0\0\0\1\1\0" + b"\0\0"
    (topic,) = read_produce_request(9, memoryview(body), 0).topics
    assert topic.partitions == [ProducePartition(0, None), ProducePartition(1, memoryview(b""))]
    legacy = b"\xff\xff" + HEAD + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + b"\0\0\0\4" + b"\xff\xff\xff\xff"
    assert read_produce_request(3, memoryview(legacy), 0).topics[0].partitions == [ProducePartition(4, None)]


def test_a_transactional_id_is_read() -> None:
    assert read_produce_request(9, memoryview(b"\3tx" + V9[1:]), 0).transactional_id == "tx"
    assert read_produce_request(3, memoryview(b"\0\2tx" + V3[2:]), 0).transactional_id == "tx"


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (9, b"\0" + HEAD + b"\2\0\1\0\0"),
        (3, b"\xff\xff" + HEAD + b"\0\0\0\1\xff\xff\0\0\0\0"),
        (9, V9.replace(b"\2t", b"\2\xff")),
        (3, V3.replace(b"\0\1t", b"\0\1\xff")),
        (9, b"\0" + HEAD + b"\0\0"),
    ],
    ids=["null name", "null legacy name", "name not UTF-8", "legacy name not UTF-8", "null topics"],
)
def test_malformed_topics_are_wire_errors(version: int, body: bytes) -> None:
    with pytest.raises(WireError, match="malformed"):
        read_produce_request(version, memoryview(body), 0)


def test_one_success_has_the_documented_layout() -> None:
    result = ProduceTopicResult("t", TOPIC_ID, [ProducePartitionResult(1, 0, 7, log_start_offset=3)])
    fixed = b"\0\0\0\1" + b"\0\0" + (7).to_bytes(8, "big") + b"\xff" * 8 + (3).to_bytes(8, "big")
    body = b"\2" + b"\2t" + b"\2" + fixed + b"\1\0\0" + b"\0" + b"\0\0\0\0" + b"\0"
    frame = b"\0\0\0\x09" + b"\0" + body
    assert pack_produce_response(9, 9, [result]) == len(frame).to_bytes(4, "big") + frame


def test_errors_and_leaders_are_carried() -> None:
    partition = ProducePartitionResult(
        0, 87, -1, record_errors=[(3, "bad key"), (4, None)], error_message="no key", current_leader=(2, 9)
    )
    frame = pack_produce_response(13, 1, [ProduceTopicResult("t", TOPIC_ID, [partition])], 50)
    response = read_response(ApiKey.PRODUCE, 13, frame, 9)
    assert ms(response.throttle_time) == 50
    (topic,) = response.responses
    assert topic.topic_id == TOPIC_ID
    (decoded,) = topic.partition_responses
    assert [(row.batch_index, row.batch_index_error_message) for row in decoded.record_errors] == [
        (3, "bad key"),
        (4, None),
    ]
    assert decoded.error_message == "no key"
    assert (decoded.current_leader.leader_id, decoded.current_leader.leader_epoch) == (2, 9)
