from __future__ import annotations

from crabka.remote.segments import TopicIdPartition
from crabka.spark.plan.catalog import TierCatalog
from tests.support.remote_segments import ORDERS, remote_segment


def test_segments_are_found_by_id_and_partition() -> None:
    segment = remote_segment(0, 9)
    second = TopicIdPartition(ORDERS.topic_id, "orders", 3)
    catalog = TierCatalog({ORDERS: [segment], second: [remote_segment(0, 9, partition=second)]})
    assert catalog.of(ORDERS.topic_id, "orders", 0) == [segment]
    assert catalog.of(ORDERS.topic_id, "orders", 1) == ()
    assert catalog.topic_ids() == {"orders": ORDERS.topic_id}
    assert catalog.partitions("orders", ORDERS.topic_id) == [0, 3]
