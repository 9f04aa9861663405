"""AddOffsetsToTxn over the wire."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.transactions import NodeProducer
from tests.support.nodes.sim_node import SimNode, versions_of


def add(node: SimNode, producer: NodeProducer, version: int) -> ErrorCode:
    answer = node.ask(
        ApiKey.ADD_OFFSETS_TO_TXN,
        version,
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("version", versions_of(ApiKey.ADD_OFFSETS_TO_TXN))
def test_the_partition_of_the_group_takes_part(node: SimNode, version: int) -> None:
    producer = NodeProducer(node)
    producer.init()
    assert add(node, producer, version) is ErrorCode.none
    (topic,) = producer.describe().topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", (node.context.groups.partition_of("g"),))


@pytest.mark.parametrize("version", versions_of(ApiKey.ADD_OFFSETS_TO_TXN))
def test_a_fenced_producer_receives_an_error_that_it_knows(node: SimNode, version: int) -> None:
    producer = NodeProducer(node)
    producer.init()
    NodeProducer(node).init()
    expected = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    assert add(node, producer, version) is expected
