"""Byte equality with kio in all versions is a property test; here are the forms that it must find."""

from __future__ import annotations

from uuid import UUID

from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import ms, read_response
from crabka.protocol.hot import ProducePartitionResult, ProduceTopicResult, pack_produce_response

TOPIC_ID = UUID(int=5)


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
