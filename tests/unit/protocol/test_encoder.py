"""Equality with kio for every API is a property test; here are the values that must be refused or passed through."""

from __future__ import annotations

import struct

import pytest

from crabka.protocol.api_keys import ApiKey
from crabka.protocol.encoder import encode_message
from crabka.protocol.message_types import request_types, response_types


def test_nulls_are_refused_where_the_schema_has_none() -> None:
    types = request_types(ApiKey.METADATA, 1)
    with pytest.raises(TypeError, match="cannot be null"):
        encode_message(types.new("MetadataRequestTopic", name=None))
    produce = response_types(ApiKey.PRODUCE, 9)
    with pytest.raises(TypeError):
        encode_message(produce.message(responses=None))


def test_numbers_that_do_not_fit_are_refused() -> None:
    types = response_types(ApiKey.METADATA, 1)
    with pytest.raises(struct.error):
        encode_message(types.new("MetadataResponseBroker", node_id=2**31, host="h", port=1, rack=None))


@pytest.mark.parametrize("version", [3, 9])
def test_records_may_be_any_buffer(version: int) -> None:
    types = request_types(ApiKey.PRODUCE, version)
    encoded = {
        encode_message(types.new("PartitionProduceData", index=1, records=records))
        for records in (b"abc", bytearray(b"abc"), memoryview(b"abc"))
    }
    assert len(encoded) == 1


def test_tagged_fields_are_left_out_when_they_have_their_default() -> None:
    types = request_types(ApiKey.FETCH, 12)
    fields = {"max_wait": 1, "min_bytes": 1, "topics": (), "forgotten_topics_data": (), "rack_id": ""}
    assert encode_message(types.message(**fields)).endswith(b"\1\0")
    assert encode_message(types.message(**fields, cluster_id="c")).endswith(b"\1\1\0\2\2c")


def test_nullable_structs_have_a_marker() -> None:
    types = response_types(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    without = encode_message(types.message(throttle_time=0, topics=(), next_cursor=None))
    cursor = types.new("Cursor", topic_name="t", partition_index=1)
    with_cursor = encode_message(types.message(throttle_time=0, topics=(), next_cursor=cursor))
    assert without == b"\0\0\0\0\1\xff\0"
    assert with_cursor == b"\0\0\0\0\1\1\2t\0\0\0\1\0\0"
