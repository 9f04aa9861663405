"""What a broker's answer means for a batch."""

from __future__ import annotations

import uuid

import pytest

from crabka.clients.errors import ClientClosedError, ClientNetworkError
from crabka.clients.producer.accumulator import ProducerBatch
from crabka.clients.producer.delivery import (
    DeliveryResult,
    PartitionOutcome,
    delivery_result,
    produce_request,
    read_outcomes,
)
from crabka.errors import OperationError, WireError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, request_types, response_types
from crabka.protocol.error_codes import ErrorCode

TOPIC_ID = uuid.UUID(int=77)


@pytest.mark.parametrize(
    ("code", "follows_unsettled", "result"),
    [
        (ErrorCode.none, False, DeliveryResult.DELIVERED),
        (ErrorCode.duplicate_sequence_number, False, DeliveryResult.DELIVERED),
        (ErrorCode.not_leader_or_follower, False, DeliveryResult.RETRY),
        (ErrorCode.not_enough_replicas, False, DeliveryResult.RETRY),
        (ErrorCode.network_exception, False, DeliveryResult.RETRY),
        (ErrorCode.out_of_order_sequence_number, True, DeliveryResult.RETRY),
        (ErrorCode.out_of_order_sequence_number, False, DeliveryResult.LOST),
        (ErrorCode.unknown_producer_id, False, DeliveryResult.RETRY_WITH_NEW_IDENTITY),
        (ErrorCode.message_too_large, False, DeliveryResult.LOST),
        (ErrorCode.topic_authorization_failed, True, DeliveryResult.LOST),
    ],
)
def test_results(code: ErrorCode, result: DeliveryResult, *, follows_unsettled: bool) -> None:
    assert delivery_result(PartitionOutcome(code), follows_unsettled=follows_unsettled) is result


def test_lost_connections_may_be_retried_and_broken_peers_not() -> None:
    def result_of(error: ClientNetworkError | WireError | ClientClosedError | OperationError) -> DeliveryResult:
        return delivery_result(PartitionOutcome.of_failure(error), follows_unsettled=False)

    assert result_of(ClientNetworkError("lost")) is DeliveryResult.RETRY
    assert result_of(OperationError(ErrorCode.leader_not_available)) is DeliveryResult.RETRY
    assert result_of(WireError("garbage")) is DeliveryResult.LOST
    assert result_of(ClientClosedError("closed")) is DeliveryResult.LOST


def batch_for(topic: str, partition: int) -> ProducerBatch:
    batch = ProducerBatch(TopicPartition(topic, partition), 0, 0)
    batch.encoded = b"bytes-%d" % partition
    return batch


def test_request_groups_partitions_by_topic_and_names_it_by_version() -> None:
    batches = [batch_for("a", 0), batch_for("b", 1), batch_for("a", 2)]
    request = produce_request(batches, -1, 500, {"a": TOPIC_ID, "b": uuid.UUID(int=78)})
    assert request.max_version is None
    newest = request.body(request_types(ApiKey.PRODUCE, 13))
    assert [topic.topic_id for topic in newest.topic_data] == [TOPIC_ID, uuid.UUID(int=78)]
    older = request.body(request_types(ApiKey.PRODUCE, 9))
    assert [[data.index for data in topic.partition_data] for topic in older.topic_data] == [[0, 2], [1]]
    assert older.topic_data[0].name == "a"


def test_request_for_a_topic_without_id_stays_at_versions_with_names() -> None:
    assert produce_request([batch_for("a", 0)], -1, 500, {}).max_version == 12


@pytest.mark.parametrize("version", [3, 9, 13])
def test_answers_are_read_in_every_version(version: int) -> None:
    types = response_types(ApiKey.PRODUCE, version)
    answers = [
        types.new(
            "PartitionProduceResponse",
            index=index,
            error_code=code,
            base_offset=40,
            log_append_time=99,
            record_errors=[],
            error_message=None,
        )
        for index, code in enumerate((ErrorCode.none, ErrorCode.invalid_record))
    ]
    topic = types.new("TopicProduceResponse", name="a", topic_id=TOPIC_ID, partition_responses=answers)
    outcomes = read_outcomes(types.message(responses=[topic], throttle_time=0), {TOPIC_ID: "a"})
    assert outcomes[TopicPartition("a", 0)] == PartitionOutcome.of_success(40, 99)
    failed = outcomes[TopicPartition("a", 1)]
    assert failed.error_code is ErrorCode.invalid_record
    assert isinstance(failed.error, OperationError)


def test_answer_about_an_unknown_topic_id_is_ignored() -> None:
    types = response_types(ApiKey.PRODUCE, 13)
    topic = types.new("TopicProduceResponse", topic_id=TOPIC_ID, partition_responses=[])
    assert read_outcomes(types.message(responses=[topic], throttle_time=0), {}) == {}


def test_request_of_a_transaction_names_its_id() -> None:
    types = request_types(ApiKey.PRODUCE, 12)
    assert produce_request([], -1, 1, {}, "id").body(types).transactional_id == "id"
    assert produce_request([], -1, 1, {}).body(types).transactional_id is None
