"""Batches that wait for the coordinator: order, guards, retries."""

from __future__ import annotations

import pytest

from crabka.broker.handlers.produce import FIRST_VERSION_WITH_TOPIC_IDS
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.txn_partitions import (
    PRODUCER_ID,
    TRANSACTIONAL_ID,
    FakeCoordinator,
    end,
    fake_coordinator,
    produce,
    transactional_batch,
)
from tests.support.nodes.sim_node import SimNode, build, produce_body, row, versions_of


@pytest.fixture
def coordinator(node: SimNode) -> FakeCoordinator:
    node.create_topic("t", 2)
    return fake_coordinator(node)


@pytest.mark.parametrize("version", versions_of(ApiKey.PRODUCE))
def test_the_coordinator_is_asked_once_per_transaction(node: SimNode, version: int) -> None:
    topic_id = node.create_topic("t").topic_id if version >= FIRST_VERSION_WITH_TOPIC_IDS else None
    if topic_id is None:
        node.create_topic("t")
    coordinator = fake_coordinator(node)
    for sequence in range(3):
        records = transactional_batch(b"v", sequence=sequence)
        assert produce(node, "t", records, version=version, topic_id=topic_id)[:2] == (0, sequence)
    (asked,) = coordinator.asked
    assert asked == (TRANSACTIONAL_ID, PRODUCER_ID, 0, (("t", 0),), version < 12)
    assert node.fetch("t").last_stable_offset == 0


def test_one_question_covers_all_partitions_of_a_request(node: SimNode, coordinator: FakeCoordinator) -> None:
    rows = [row("PartitionProduceData", index=index, records=transactional_batch(b"v")) for index in (0, 1)]
    topic = row("TopicProduceData", name="t", partition_data=rows)
    body = build(ApiKey.PRODUCE, 12, transactional_id=TRANSACTIONAL_ID, acks=-1, timeout=1000, topic_data=[topic])
    answer = node.ask(ApiKey.PRODUCE, 12, body)
    assert [each.error_code for each in answer.responses[0].partition_responses] == [0, 0]
    assert [each.partitions for each in coordinator.asked] == [(("t", 0), ("t", 1))]


def test_batches_of_two_producers_do_not_go_together(node: SimNode, coordinator: FakeCoordinator) -> None:
    rows = [
        row("PartitionProduceData", index=index, records=transactional_batch(b"v", producer_id=index))
        for index in (0, 1)
    ]
    topic = row("TopicProduceData", name="t", partition_data=rows)
    body = build(ApiKey.PRODUCE, 12, transactional_id=TRANSACTIONAL_ID, acks=-1, timeout=1000, topic_data=[topic])
    answer = node.ask(ApiKey.PRODUCE, 12, body)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.none, ErrorCode.invalid_producer_id_mapping]
    assert len(coordinator.asked) == 1


def test_later_batches_do_not_overtake_one_that_waits(node: SimNode, coordinator: FakeCoordinator) -> None:
    coordinator.open.clear()
    for sequence in range(3):
        records = transactional_batch(b"%d" % sequence, sequence=sequence)
        node.client.post(ApiKey.PRODUCE, 12, produce_body("t", records, version=12, transactional_id=TRANSACTIONAL_ID))
    node.advance(10)
    assert len(coordinator.asked) == 1
    coordinator.open.set()
    for offset in range(3):
        _, answer = node.run(node.client.response(ApiKey.PRODUCE, 12))
        produced = answer.responses[0].partition_responses[0]
        assert (produced.error_code, produced.base_offset) == (0, offset)
    assert len(coordinator.asked) == 1
    assert not node.context.partitions.by_name("t", 0).queue.verifying


def test_an_answer_of_an_ended_transaction_lets_no_batch_in(node: SimNode, coordinator: FakeCoordinator) -> None:
    coordinator.open.clear()
    body = produce_body("t", transactional_batch(b"late"), version=11, transactional_id=TRANSACTIONAL_ID)
    waiting = node.connect()
    waiting.post(ApiKey.PRODUCE, 11, body)
    node.advance(10)
    assert end(node, [("t", 0)], commit=False, epoch=0, transaction_version=1) == [ErrorCode.none]
    coordinator.open.set()
    _, answer = node.run(waiting.response(ApiKey.PRODUCE, 11))
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.invalid_txn_state
    assert node.fetch("t").last_stable_offset == 1


@pytest.mark.parametrize(
    ("version", "answer", "reported"),
    [
        (9, ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
        (11, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (11, ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas),
        (12, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (12, ErrorCode.coordinator_not_available, ErrorCode.not_enough_replicas),
    ],
)
def test_a_refusal_is_reported_and_nothing_is_appended(
    node: SimNode, coordinator: FakeCoordinator, version: int, answer: ErrorCode, reported: ErrorCode
) -> None:
    coordinator.answers = [answer]
    assert produce(node, "t", transactional_batch(b"v"), version=version).error_code == reported
    assert node.values("t") == []
    assert produce(node, "t", transactional_batch(b"v"), version=version).error_code == ErrorCode.none


def test_the_end_of_the_last_transaction_is_waited_for(node: SimNode, coordinator: FakeCoordinator) -> None:
    coordinator.answers = [ErrorCode.concurrent_transactions] * 2
    assert produce(node, "t", transactional_batch(b"v")).error_code == ErrorCode.none
    assert len(coordinator.asked) == 3


def test_it_is_not_waited_for_ever(node: SimNode, coordinator: FakeCoordinator) -> None:
    coordinator.answers = [ErrorCode.concurrent_transactions] * 100
    produced = produce(node, "t", transactional_batch(b"v"))
    assert produced.error_code == ErrorCode.concurrent_transactions
    assert len(coordinator.asked) == 6


def test_without_verification_only_clients_that_add_partitions_by_writing_go_through_the_coordinator(
    coordinator: FakeCoordinator, node: SimNode
) -> None:
    assert node.set_configs(4, "", transaction_partition_verification_enable="false") == 0
    assert produce(node, "t", transactional_batch(b"v"), version=11).error_code == ErrorCode.none
    assert not coordinator.asked
    assert produce(node, "t", transactional_batch(b"w"), partition=1, version=12).error_code == ErrorCode.none
    assert [(each.partitions, each.verify_only) for each in coordinator.asked] == [((("t", 1),), False)]


def test_a_transactional_batch_needs_a_transactional_id(node: SimNode, coordinator: FakeCoordinator) -> None:
    produced = node.produce("t", transactional_batch(b"v"), version=12)
    assert produced.error_code == ErrorCode.transactional_id_authorization_failed
    assert not coordinator.asked


def test_a_lost_connection_does_not_lose_a_batch_that_waits(node: SimNode, coordinator: FakeCoordinator) -> None:
    coordinator.open.clear()
    waiting = node.connect()
    waiting.post(
        ApiKey.PRODUCE, 12, produce_body("t", transactional_batch(b"v"), version=12, transactional_id=TRANSACTIONAL_ID)
    )
    node.advance(10)
    waiting.transport.close()
    node.advance(10)
    coordinator.open.set()
    node.advance(10)
    assert node.values("t") == [b"v"]
    assert not node.context.partitions.by_name("t", 0).queue.verifying


def test_a_partition_must_not_occur_twice(node: SimNode, coordinator: FakeCoordinator) -> None:
    rows = [row("PartitionProduceData", index=0, records=transactional_batch(b"v")) for _ in range(2)]
    topic = row("TopicProduceData", name="t", partition_data=rows)
    body = build(ApiKey.PRODUCE, 12, transactional_id=TRANSACTIONAL_ID, acks=-1, timeout=1000, topic_data=[topic])
    codes = [each.error_code for each in node.ask(ApiKey.PRODUCE, 12, body).responses[0].partition_responses]
    assert codes == [ErrorCode.none, ErrorCode.invalid_request]
    assert len(coordinator.asked) == 1
