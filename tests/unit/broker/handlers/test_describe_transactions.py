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
    reported = producer.describe()
    assert (reported.error_code, reported.transactional_id, reported.transaction_state) == (
        ErrorCode.none,
        "id",
        "Ongoing",
    )
    assert (reported.producer_id, reported.producer_epoch) == (producer.producer_id, producer.epoch)
    assert ms(reported.transaction_timeout) == TIMEOUT_MS
    assert abs(ms(reported.transaction_start_time) - node.clock.now_ms()) < 100
    assert [(row.topic, row.partitions) for row in reported.topics] == [("t", (1, 0))]


def test_what_is_not_there_is_reported(node: SimNode) -> None:
    assert NodeProducer(node).describe().error_code is ErrorCode.transactional_id_not_found
    assert NodeProducer(node, "").describe().error_code is ErrorCode.invalid_request
