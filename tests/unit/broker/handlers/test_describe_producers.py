"""DescribeProducers over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.txn_partitions import end, fake_coordinator, produce, transactional_batch
from tests.support.nodes.sim_node import SimNode, batch, row, versions_of
from tests.support.storage.replicas import give_followers


def ask(node: SimNode, topic: str = "t", *, version: int = 0) -> Any:
    rows = [row("TopicRequest", name=topic, partition_indexes=[0])]
    return node.ask(ApiKey.DESCRIBE_PRODUCERS, version, topics=rows).topics[0].partitions[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_PRODUCERS))
def test_active_producers_are_listed(node: SimNode, version: int) -> None:
    node.create_topic("t")
    assert ask(node, version=version).active_producers == ()
    node.produce("t", batch(b"a", b"b", producer_id=7, producer_epoch=3, base_sequence=0, timestamp=1_767_225_600_009))
    (producer,) = ask(node, version=version).active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)


def test_an_unknown_partition_is_reported(node: SimNode) -> None:
    answer = ask(node, "nope")
    assert answer.error_code is ErrorCode.unknown_topic_or_partition
    assert answer.error_message


def test_a_hanging_transaction_can_be_seen_and_ended(node: SimNode) -> None:
    node.create_topic("t")
    fake_coordinator(node)
    node.produce("t", batch(b"before"))
    produce(node, "t", transactional_batch(b"open"))
    (producer,) = ask(node).active_producers
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (1, -1)
    # As `kafka-transactions abort` does: with the epochs that it received.
    assert end(node, [("t", 0)], commit=False, epoch=0, coordinator_epoch=0, version=1) == [ErrorCode.none]
    (producer,) = ask(node).active_producers
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, 0)


def test_a_follower_may_be_asked(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a", producer_id=7, producer_epoch=3, base_sequence=0))
    give_followers(node, "t", leader=2)
    assert [producer.producer_id for producer in ask(node).active_producers] == [7]
