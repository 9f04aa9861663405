from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import encode_message, read_request, read_response
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms, request_types, response_types

PARTITION: dict[str, Any] = {
    "error_code": ErrorCode.none,
    "partition_index": 1,
    "leader_id": 2,
    "leader_epoch": 3,
    "replica_nodes": [2],
    "isr_nodes": [2],
    "offline_replicas": [],
}


def test_fields_that_only_other_versions_have_are_dropped() -> None:
    old = response_types(ApiKey.METADATA, 1).new("MetadataResponsePartition", **PARTITION)
    new = response_types(ApiKey.METADATA, 12).new("MetadataResponsePartition", **PARTITION)
    assert not hasattr(old, "leader_epoch")
    assert new.leader_epoch == 3
    assert new.replica_nodes == (2,)


def test_a_field_that_an_older_version_alone_has_is_dropped() -> None:
    types = request_types(ApiKey.FETCH, 18)
    assert types.has_field("FetchTopic", "topic_id")
    topic = types.new("FetchTopic", topic="t", topic_id=None, partitions=())
    assert not hasattr(topic, "topic")


def test_a_field_that_no_version_has_is_an_error() -> None:
    with pytest.raises(TypeError, match="no version of MetadataResponsePartition has a field 'leader'"):
        response_types(ApiKey.METADATA, 12).new("MetadataResponsePartition", **PARTITION, leader=1)


def test_a_class_that_no_version_has_is_an_error() -> None:
    with pytest.raises(TypeError, match="has a class Nothing"):
        response_types(ApiKey.METADATA, 12).new("Nothing")
    with pytest.raises(TypeError, match="has a class ErrorCode"):
        response_types(ApiKey.METADATA, 12).new("ErrorCode")


def test_a_missing_field_without_default_is_an_error() -> None:
    with pytest.raises(TypeError, match="partition_index"):
        response_types(ApiKey.METADATA, 12).new("MetadataResponsePartition", error_code=0)


def test_a_class_of_other_versions_can_be_built_and_is_dropped_with_its_field() -> None:
    types = response_types(ApiKey.PRODUCE, 3)
    endpoint = types.new("NodeEndpoint", node_id=1, host="h", port=9092)
    response = types.message(responses=[], throttle_time=5, node_endpoints=[endpoint])
    assert encode_message(response) == b"\0\0\0\0\0\0\0\5"


def test_plain_error_numbers_become_codes() -> None:
    partition = response_types(ApiKey.METADATA, 12).new("MetadataResponsePartition", **PARTITION | {"error_code": 6})
    assert partition.error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("value", [0, 1, 1500, -1, 2**31 - 1])
def test_durations_go_through_in_milliseconds(value: int) -> None:
    types = request_types(ApiKey.FETCH, 12)
    request = types.message(max_wait=value, min_bytes=1, topics=[], forgotten_topics_data=[], rack_id="")
    assert ms(read_request(ApiKey.FETCH, 12, encode_message(request)).max_wait) == value


@pytest.mark.parametrize("value", [-1, 0, 1, 1_700_000_000_123, 253_402_300_799_999])
def test_nullable_instants_go_through_in_milliseconds(value: int) -> None:
    types = response_types(ApiKey.PRODUCE, 3)
    partition = types.new("PartitionProduceResponse", index=0, error_code=0, base_offset=0, log_append_time=value)
    topic = types.new("TopicProduceResponse", name="t", partition_responses=[partition])
    decoded = read_response(ApiKey.PRODUCE, 3, encode_message(types.message(responses=[topic])))
    assert ms(decoded.responses[0].partition_responses[0].log_append_time) == value


@pytest.mark.parametrize("value", [-1, 0, 1_700_000_000_123, 2**63 - 1])
def test_instants_that_cannot_be_null_take_all_values(value: int) -> None:
    types = response_types(ApiKey.DESCRIBE_TRANSACTIONS, 0)
    state = types.new(
        "TransactionState",
        error_code=0,
        transactional_id="t",
        transaction_state="Empty",
        transaction_timeout=0,
        transaction_start_time=value,
        producer_id=1,
        producer_epoch=0,
        topics=[],
    )
    body = encode_message(types.message(throttle_time=0, transaction_states=[state]))
    decoded = read_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, body)
    assert ms(decoded.transaction_states[0].transaction_start_time) == value


def test_ms_reads_every_form() -> None:
    assert ms(None) == -1
    assert ms(7) == 7
    assert ms(timedelta(seconds=2)) == 2000
    assert ms(datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)) == 1500
