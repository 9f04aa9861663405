"""DescribeTransactions over the wire."""

from __future__ import annotations

from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.message_types import ms
from tests.support.coordinators.transactions import TIMEOUT_MS, NodeProducer
from tests.support.nodes.sim_node import SimNode


def test_a_transaction_is_described(node: SimNode) -> None:
    node.create_topic("t", 2)
    producer = NodeProducer(node)
    producer.init()
    empty = producer.describe()
    assert (empty.transaction_state, ms(empty.transaction_start_time), empty.topics) == ("Empty", -1, ())
    producer.add_by_broker(partitions=(1, 0))
    told = producer.describe()
    assert (told.error_code, told.transactional_id, told.transaction_state) == (ErrorCode.none, "id", "Ongoing")
    assert (told.producer_id, told.producer_epoch) == (producer.producer_id, producer.epoch)
    assert ms(told.transaction_timeout) == TIMEOUT_MS
    assert abs(ms(told.transaction_start_time) - node.clock.now_ms()) < 100
    assert [(row.topic, row.partitions) for row in told.topics] == [("t", (1, 0))]


def test_what_is_not_there_is_reported(node: SimNode) -> None:
    assert NodeProducer(node).describe().error_code is ErrorCode.transactional_id_not_found
    assert NodeProducer(node, "").describe().error_code is ErrorCode.invalid_request
