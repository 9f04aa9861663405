from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from crabka.errors import WireError
from crabka.protocol.apis import ApiKey, encode_response, read_request, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot.follower_fetch import (
    FetchedPartition,
    FollowerFetchRequest,
    pack_fetch_partition,
    pack_follower_fetch,
    read_fetched,
)

TOPIC_ID, OTHER_ID = UUID(int=7), UUID(int=8)
REQUEST = FollowerFetchRequest(
    replica_id=2, broker_epoch=99, max_wait_ms=500, min_bytes=1, max_bytes=1000, session_id=12, session_epoch=3
)


def partition(index: int) -> bytes:
    return pack_fetch_partition(
        index, leader_epoch=5, fetch_offset=2**40, last_fetched_epoch=4, log_start_offset=7, max_bytes=100
    )


@pytest.mark.parametrize("version", range(13, 19))
def test_a_request_reads_as_it_was_meant(version: int) -> None:
    topics = {TOPIC_ID.bytes: [partition(0), partition(200)], OTHER_ID.bytes: [partition(1)]}
    body = pack_follower_fetch(version, REQUEST, topics, {OTHER_ID.bytes: [3, 4]})
    request = read_request(ApiKey.FETCH, version, body)
    assert [topic.topic_id for topic in request.topics] == [TOPIC_ID, OTHER_ID]
    assert [each.partition for topic in request.topics for each in topic.partitions] == [0, 200, 1]
    wanted = request.topics[0].partitions[1]
    assert (wanted.current_leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch) == (5, 2**40, 4)
    assert (wanted.log_start_offset, wanted.partition_max_bytes) == (7, 100)
    assert (request.session_id, request.session_epoch, request.isolation_level) == (12, 3, 0)
    assert (request.max_wait.total_seconds(), request.min_bytes, request.max_bytes) == (0.5, 1, 1000)
    assert [(each.topic_id, tuple(each.partitions)) for each in request.forgotten_topics_data] == [(OTHER_ID, (3, 4))]
    assert request.rack_id == ""
    if version < 15:
        assert request.replica_id == 2
    else:
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 99)


def test_many_partitions_and_topics_fit() -> None:
    topics = {UUID(int=number).bytes: [partition(index) for index in range(200)] for number in range(1, 200)}
    request = read_request(ApiKey.FETCH, 18, pack_follower_fetch(18, REQUEST, topics, {}))
    assert sum(len(topic.partitions) for topic in request.topics) == 200 * 199


def row(types: Any, index: int, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "error_code": ErrorCode.none,
        "high_watermark": 10,
        "last_stable_offset": 9,
        "log_start_offset": 3,
        "aborted_transactions": None,
        "records": None,
    }
    return types.new("PartitionData", partition_index=index, **{**values, **fields})


def response(version: int = 18, **fields: Any) -> bytes:
    types = response_types(ApiKey.FETCH, version)
    aborted = [types.new("AbortedTransaction", producer_id=1, first_offset=2)] * 200
    rows = [
        row(types, 0, records=b"abc"),
        row(types, 1, error_code=ErrorCode.not_leader_or_follower, high_watermark=-1),
        row(types, 2, diverging_epoch=types.new("EpochEndOffset", epoch=4, end_offset=2**33)),
        row(types, 3, current_leader=types.new("LeaderIdAndEpoch", leader_id=1, leader_epoch=6)),
        row(types, 4, records=b"x" * 300, aborted_transactions=aborted),
        row(types, 5, aborted_transactions=[], records=b""),
    ]
    topics = [types.new("FetchableTopicResponse", topic_id=TOPIC_ID, partitions=rows)]
    values: dict[str, Any] = {"throttle_time": 5, "error_code": ErrorCode.none, "session_id": 77, "responses": topics}
    return encode_response(types.message(**{**values, **fields}))


@pytest.mark.parametrize("version", range(13, 19))
def test_a_response_reads_as_it_was_meant(version: int) -> None:
    body = read_fetched(memoryview(b"head" + response(version)), 4)
    assert (body.error_code, body.session_id) == (0, 77)
    (topic,) = body.topics
    assert topic.topic_id == TOPIC_ID.bytes
    assert topic.partitions == [
        FetchedPartition(0, 0, 10, 3, memoryview(b"abc"), None),
        FetchedPartition(1, ErrorCode.not_leader_or_follower.value, -1, 3, memoryview(b""), None),
        FetchedPartition(2, 0, 10, 3, memoryview(b""), (4, 2**33)),
        FetchedPartition(3, 0, 10, 3, memoryview(b""), None),
        FetchedPartition(4, 0, 10, 3, memoryview(b"x" * 300), None),
        FetchedPartition(5, 0, 10, 3, memoryview(b""), None),
    ]


def test_records_stay_where_they_are() -> None:
    data = response()
    (topic,) = read_fetched(memoryview(data), 0).topics
    assert topic.partitions[0].records.obj is data


def test_endpoints_of_other_leaders_are_passed_over() -> None:
    types = response_types(ApiKey.FETCH, 18)
    endpoints = [types.new("NodeEndpoint", node_id=1, host="h", port=2, rack=None)]
    assert len(read_fetched(memoryview(response(node_endpoints=endpoints)), 0).topics) == 1


def test_an_error_of_the_whole_answer_is_reported() -> None:
    data = response(error_code=ErrorCode.invalid_fetch_session_epoch, session_id=0, responses=[])
    assert read_fetched(memoryview(data), 0) == (ErrorCode.invalid_fetch_session_epoch.value, 0, [])


def test_a_response_cut_anywhere_is_a_wire_error() -> None:
    data = response()
    for length in range(len(data)):
        with pytest.raises(WireError):
            read_fetched(memoryview(data)[:length], 0)


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x07", b"\xe9\x07", b"\x00"])
def test_arrays_longer_than_the_frame_are_refused(count: bytes) -> None:
    head = struct.pack(">ihi", 0, 0, 0)
    with pytest.raises(WireError):
        read_fetched(memoryview(head + count), 0)
    with pytest.raises(WireError):
        read_fetched(memoryview(head + b"\2" + TOPIC_ID.bytes + count), 0)
