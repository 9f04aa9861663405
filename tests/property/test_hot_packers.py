"""The hand-packed messages are byte-equal to what kio writes, in every version."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from crabka.ports import FileRange, Payload
from crabka.protocol.apis import SPECS, ApiKey, encode_message, ms, read_request, request_types, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.hot import (
    FetchPartitionResult,
    FetchTopicResult,
    NodeEndpoint,
    ProducePartitionResult,
    ProduceTopicResult,
    RecordParts,
    pack_fetch_response,
    pack_produce_response,
    read_produce_request,
)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
# Beyond the year 9999 kio's datetime ends, ours goes on.
timestamps = st.just(-1) | st.integers(0, 253_402_300_799_999)
names = st.text(max_size=200)
messages = st.none() | st.text(max_size=40)
leaders = st.none() | st.tuples(i32, i32)
error_codes = st.sampled_from(list(ErrorCode))
endpoints = st.lists(st.builds(NodeEndpoint, i32, names, i32, messages), max_size=3)

produce_partitions = st.builds(
    ProducePartitionResult,
    partition=i32,
    error_code=error_codes,
    base_offset=i64,
    log_append_time_ms=timestamps,
    log_start_offset=i64,
    record_errors=st.lists(st.tuples(i32, messages), max_size=3),
    error_message=messages,
    current_leader=leaders,
)
plain_produce_partitions = st.tuples(i32, error_codes, i64, timestamps, i64).map(
    lambda fields: ProducePartitionResult(*fields)
)
produce_topics = st.lists(
    st.builds(
        ProduceTopicResult,
        names,
        st.uuids(),
        st.lists(produce_partitions, max_size=3) | st.tuples(plain_produce_partitions),
    ),
    max_size=3,
)

record_bytes = st.binary(max_size=300) | st.integers(1000, 70_000).map(bytes)
fetch_partitions = st.builds(
    FetchPartitionResult,
    partition=i32,
    error_code=error_codes,
    high_watermark=i64,
    last_stable_offset=i64,
    log_start_offset=i64,
    records=record_bytes | st.lists(record_bytes, max_size=3).map(RecordParts),
    aborted_transactions=st.none() | st.lists(st.tuples(i64, i64), max_size=3),
    preferred_read_replica=i32,
    diverging_epoch=st.none() | st.tuples(i32, i64),
    current_leader=leaders,
    snapshot_id=st.none() | st.tuples(i64, i32),
)
fetch_topics = st.lists(
    st.builds(FetchTopicResult, names, st.uuids(), st.lists(fetch_partitions, max_size=3)), max_size=3
)


def materialised(payload: Payload | RecordParts) -> bytes:
    if isinstance(payload, RecordParts):
        return b"".join(map(materialised, payload.parts))
    return payload.read() if isinstance(payload, FileRange) else bytes(payload)


def versions(key: ApiKey) -> range:
    return range(SPECS[key].min_version, SPECS[key].max_version + 1)


def expected_frame(key: ApiKey, version: int, correlation_id: int, entity: Any) -> bytes:
    tags = b"\0" if SPECS[key].response_header_flexible(version) else b""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    payload = struct.pack(">i", correlation_id) + tags + buffer.getvalue()
    return struct.pack(">i", len(payload)) + payload


def entity_fields(types: Any, name: str, first: str, second: str, pair: tuple[int, int] | None) -> Any:
    return types.new(name, **({} if pair is None else {first: pair[0], second: pair[1]}))


def produce_entity(version: int, topics: list[ProduceTopicResult], throttle_ms: int, nodes: list[NodeEndpoint]) -> Any:
    types = response_types(ApiKey.PRODUCE, version)

    def partition(result: ProducePartitionResult) -> Any:
        errors = [
            types.new("BatchIndexAndErrorMessage", batch_index=index, batch_index_error_message=text)
            for index, text in result.record_errors
        ]
        return types.new(
            "PartitionProduceResponse",
            index=result.partition,
            error_code=result.error_code,
            base_offset=result.base_offset,
            log_append_time=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
            record_errors=errors,
            error_message=result.error_message,
            current_leader=entity_fields(types, "LeaderIdAndEpoch", "leader_id", "leader_epoch", result.current_leader),
        )

    return types.message(
        responses=[
            types.new(
                "TopicProduceResponse",
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[partition(result) for result in topic.partitions],
            )
            for topic in topics
        ],
        throttle_time=throttle_ms,
        node_endpoints=[types.new("NodeEndpoint", **node._asdict()) for node in nodes],
    )


def fetch_entity(
    version: int, head: tuple[int, ErrorCode, int], topics: list[FetchTopicResult], nodes: list[NodeEndpoint]
) -> Any:
    types = response_types(ApiKey.FETCH, version)

    def partition(result: FetchPartitionResult) -> Any:
        aborted = result.aborted_transactions
        return types.new(
            "PartitionData",
            partition_index=result.partition,
            error_code=result.error_code,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            diverging_epoch=entity_fields(types, "EpochEndOffset", "epoch", "end_offset", result.diverging_epoch),
            current_leader=entity_fields(types, "LeaderIdAndEpoch", "leader_id", "leader_epoch", result.current_leader),
            snapshot_id=entity_fields(types, "SnapshotId", "end_offset", "epoch", result.snapshot_id),
            aborted_transactions=None
            if aborted is None
            else [types.new("AbortedTransaction", producer_id=pid, first_offset=first) for pid, first in aborted],
            preferred_read_replica=result.preferred_read_replica,
            records=materialised(result.records),
        )

    throttle_ms, error_code, session_id = head
    return types.message(
        throttle_time=throttle_ms,
        error_code=error_code,
        session_id=session_id,
        responses=[
            types.new(
                "FetchableTopicResponse",
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=[partition(result) for result in topic.partitions],
            )
            for topic in topics
        ],
        node_endpoints=[types.new("NodeEndpoint", **node._asdict()) for node in nodes],
    )


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@given(correlation_id=i32, topics=produce_topics, throttle_ms=i32, nodes=endpoints)
def test_produce_response_equals_kio(
    version: int, correlation_id: int, topics: list[ProduceTopicResult], throttle_ms: int, nodes: list[NodeEndpoint]
) -> None:
    entity = produce_entity(version, topics, throttle_ms, nodes)
    packed = pack_produce_response(version, correlation_id, topics, throttle_ms, nodes)
    assert packed == expected_frame(ApiKey.PRODUCE, version, correlation_id, entity)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@given(correlation_id=i32, name=names, topic_id=st.uuids(), result=plain_produce_partitions, throttle_ms=i32)
def test_produce_response_of_one_plain_partition_equals_kio(
    version: int, correlation_id: int, name: str, topic_id: Any, result: ProducePartitionResult, throttle_ms: int
) -> None:
    topics = [ProduceTopicResult(name, topic_id, (result,))]
    packed = pack_produce_response(version, correlation_id, topics, throttle_ms)
    entity = produce_entity(version, topics, throttle_ms, [])
    assert packed == expected_frame(ApiKey.PRODUCE, version, correlation_id, entity)


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
@given(correlation_id=i32, head=st.tuples(i32, error_codes, i32), topics=fetch_topics, nodes=endpoints)
def test_fetch_response_equals_kio(
    version: int,
    correlation_id: int,
    head: tuple[int, ErrorCode, int],
    topics: list[FetchTopicResult],
    nodes: list[NodeEndpoint],
) -> None:
    throttle_ms, error_code, session_id = head
    frame = pack_fetch_response(
        version,
        correlation_id,
        topics,
        throttle_ms=throttle_ms,
        error_code=error_code,
        session_id=session_id,
        node_endpoints=nodes,
    )
    entity = fetch_entity(version, head, topics, nodes)
    assert b"".join(map(materialised, frame)) == expected_frame(ApiKey.FETCH, version, correlation_id, entity)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@given(
    transactional_id=messages,
    acks=st.integers(-2, 2),
    timeout_ms=i32,
    topics=st.lists(
        st.tuples(names, st.uuids(), st.lists(st.tuples(i32, st.none() | st.binary(max_size=200)), max_size=3)),
        max_size=3,
    ),
    tail=st.binary(max_size=3),
)
def test_produce_request_reads_as_kio_does(
    version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: list[Any], tail: bytes
) -> None:
    types = request_types(ApiKey.PRODUCE, version)
    entity = types.message(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timeout_ms,
        topic_data=[
            types.new(
                "TopicProduceData",
                name=name,
                topic_id=topic_id,
                partition_data=[types.new("PartitionProduceData", index=i, records=data) for i, data in partitions],
            )
            for name, topic_id, partitions in topics
        ],
    )
    body = encode_message(entity)
    request = read_produce_request(version, memoryview(b"pad" + body + tail), 3)
    decoded = read_request(ApiKey.PRODUCE, version, b"pad" + body + tail, 3)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (
        decoded.transactional_id,
        decoded.acks,
        ms(decoded.timeout),
    )
    assert [
        (topic.topic_id if version >= 13 else topic.name, [tuple(partition) for partition in topic.partitions])
        for topic in request.topics
    ] == [
        (topic.topic_id if version >= 13 else topic.name, [(p.index, p.records) for p in topic.partition_data])
        for topic in decoded.topic_data
    ]
