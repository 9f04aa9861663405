"""The requests of transactions in all their versions, and the errors of their answers."""

from __future__ import annotations

import pytest

from crabka.clients.producer.accumulator import ProducerIdentity
from crabka.clients.producer.transaction_messages import (
    GroupMembership,
    OffsetToCommit,
    TransactionalSender,
    next_identity,
    transactions_version,
    worst_of_added,
    worst_of_offsets,
)
from crabka.ids import TopicPartition
from crabka.protocol.apis import SPECS, ApiKey, encode_request, request_types, response_types
from crabka.protocol.error_codes import ErrorCode

SENDER = TransactionalSender("id", ProducerIdentity(7, 3))
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_grouped_by_topic(version: int) -> None:
    body = SENDER.add_partitions([A1, B0, A0])(request_types(ApiKey.ADD_PARTITIONS_TO_TXN, version))
    assert (body.v3_and_below_transactional_id, body.v3_and_below_producer_id) == ("id", 7)
    assert body.v3_and_below_producer_epoch == 3
    assert {topic.name: topic.partitions for topic in body.v3_and_below_topics} == {"a": (0, 1), "b": (0,)}
    assert encode_request(body)


@pytest.mark.parametrize("version", range(SPECS[ApiKey.TXN_OFFSET_COMMIT].max_version + 1))
def test_offsets_carry_the_member_where_the_version_has_one(version: int) -> None:
    group = GroupMembership("g", "member", 5, "instance")
    offsets = {A0: OffsetToCommit(10, 2, "note"), B0: OffsetToCommit(20)}
    body = SENDER.commit_offsets(group, offsets)(request_types(ApiKey.TXN_OFFSET_COMMIT, version))
    assert (body.group_id, body.producer_id, body.producer_epoch) == ("g", 7, 3)
    rows = {(topic.name, row.partition_index): row for topic in body.topics for row in topic.partitions}
    assert rows["a", 0].committed_offset == 10
    assert rows["a", 0].committed_metadata == "note"
    assert rows["b", 0].committed_offset == 20
    if version >= 3:
        assert (body.generation_id, body.member_id, body.group_instance_id) == (5, "member", "instance")
    assert encode_request(body)


@pytest.mark.parametrize("version", range(SPECS[ApiKey.END_TXN].max_version + 1))
def test_the_end_says_which_and_its_answer_may_give_the_next_epoch(version: int) -> None:
    body = SENDER.end(commit=True)(request_types(ApiKey.END_TXN, version))
    assert body.committed
    answer = response_types(ApiKey.END_TXN, version).message(
        throttle_time=0, error_code=ErrorCode.none, producer_id=7, producer_epoch=4
    )
    assert next_identity(answer, SENDER.identity) == ProducerIdentity(7, 4 if version >= 5 else 3)


def test_init_and_add_offsets_name_the_sender() -> None:
    init = SENDER.init(60_000)(request_types(ApiKey.INIT_PRODUCER_ID, 5))
    assert (init.transactional_id, init.producer_id, init.producer_epoch) == ("id", 7, 3)
    assert init.transaction_timeout.total_seconds() == 60
    added = SENDER.add_offsets("g")(request_types(ApiKey.ADD_OFFSETS_TO_TXN, 4))
    assert (added.transactional_id, added.group_id) == ("id", "g")


def test_reason_comes_before_what_was_not_attempted() -> None:
    types = response_types(ApiKey.ADD_PARTITIONS_TO_TXN, 3)
    codes = [ErrorCode.none, ErrorCode.operation_not_attempted, ErrorCode.topic_authorization_failed]
    results = [
        types.new("AddPartitionsToTxnPartitionResult", partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]

    def answer(count: int) -> ErrorCode:
        topic = types.new("AddPartitionsToTxnTopicResult", name="t", results_by_partition=results[:count])
        return worst_of_added(types.message(throttle_time=0, results_by_topic_v3_and_below=[topic]))

    assert answer(3) is ErrorCode.topic_authorization_failed
    assert answer(2) is ErrorCode.operation_not_attempted
    assert answer(1) is ErrorCode.none


def test_first_error_of_offsets_counts() -> None:
    types = response_types(ApiKey.TXN_OFFSET_COMMIT, 5)
    rows = [
        types.new("TxnOffsetCommitResponsePartition", partition_index=index, error_code=code)
        for index, code in enumerate((ErrorCode.none, ErrorCode.not_coordinator))
    ]
    topic = types.new("TxnOffsetCommitResponseTopic", name="t", partitions=rows)
    assert worst_of_offsets(types.message(throttle_time=0, topics=[topic])) is ErrorCode.not_coordinator


def test_version_of_transactions_is_a_finalized_feature() -> None:
    types = response_types(ApiKey.API_VERSIONS, 3)
    feature = types.new("FinalizedFeatureKey", name="transaction.version", max_version_level=2, min_version_level=2)
    reported = types.message(error_code=ErrorCode.none, api_keys=[], throttle_time=0, finalized_features=[feature])
    assert transactions_version(reported) == 2
    assert transactions_version(types.message(error_code=ErrorCode.none, api_keys=[], throttle_time=0)) == 0
    assert transactions_version(response_types(ApiKey.API_VERSIONS, 0).message(error_code=0, api_keys=[])) == 0
