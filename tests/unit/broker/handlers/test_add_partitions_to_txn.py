"""AddPartitionsToTxn over the wire."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.transactions import NodeProducer
from tests.support.nodes.sim_node import SimNode, row, versions_of

CLIENT_VERSIONS = [version for version in versions_of(ApiKey.ADD_PARTITIONS_TO_TXN) if version < 4]
BROKER_VERSIONS = [version for version in versions_of(ApiKey.ADD_PARTITIONS_TO_TXN) if version >= 4]


@pytest.fixture
def producer(node: SimNode) -> NodeProducer:
    node.create_topic("t", 3)
    producer = NodeProducer(node)
    assert producer.init() is ErrorCode.none
    return producer


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_clients_add_their_partitions(producer: NodeProducer, version: int) -> None:
    assert producer.add(version, partitions=(0, 2)) == [ErrorCode.none] * 2
    assert [(row.topic, row.partitions) for row in producer.describe().topics] == [("t", (0, 2))]


@pytest.mark.parametrize("version", BROKER_VERSIONS)
def test_brokers_add_and_verify_for_their_clients(producer: NodeProducer, version: int) -> None:
    assert producer.add_by_broker(version, verify_only=True) == [ErrorCode.transaction_abortable]
    assert producer.add_by_broker(version, partitions=(1,)) == [ErrorCode.none]
    reported = producer.add_by_broker(version, partitions=(0, 1), verify_only=True)
    assert reported == [ErrorCode.transaction_abortable, ErrorCode.none]


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_a_fenced_producer_receives_an_error_that_it_knows(node: SimNode, producer: NodeProducer, version: int) -> None:
    NodeProducer(node).init()
    expected = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    assert producer.add(version) == [expected]


def test_one_unknown_partition_stops_all(producer: NodeProducer) -> None:
    reported = [ErrorCode.operation_not_attempted, ErrorCode.unknown_topic_or_partition]
    assert producer.add(partitions=(0, 9)) == reported
    assert producer.add_by_broker(partitions=(0, 9)) == reported
    assert producer.state == "Empty"


def test_clients_do_not_write_to_the_topics_of_coordinators(producer: NodeProducer) -> None:
    assert producer.add(topic="__transaction_state") == [ErrorCode.topic_authorization_failed]
    assert producer.add_by_broker(topic="__transaction_state") == [ErrorCode.none]


@pytest.mark.parametrize("version", BROKER_VERSIONS)
def test_one_request_of_a_broker_asks_for_many_transactions(
    node: SimNode, producer: NodeProducer, version: int
) -> None:
    other = NodeProducer(node, "other")
    assert other.init() is ErrorCode.none
    rows = [
        row(
            "AddPartitionsToTxnTransaction",
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            producer_epoch=epoch,
            verify_only=False,
            topics=[row("AddPartitionsToTxnTopic", name="t", partitions=(0, 1))],
        )
        for each, epoch in ((producer, producer.epoch), (other, other.epoch + 1))
    ]
    answer = node.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=rows)
    assert answer.error_code is ErrorCode.none
    reported = {
        result.transactional_id: [each.partition_error_code for each in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    }
    assert reported == {"id": [ErrorCode.none] * 2, "other": [ErrorCode.producer_fenced] * 2}
