"""What the tier counts."""

from __future__ import annotations

from crabka.broker.tiering.stats import REMOTE_COPY_BYTES, REMOTE_COPY_LAG_BYTES, TierStats
from crabka.ids import TopicPartition

ORDERS_0 = TopicPartition("orders", 0)


def test_counters_add_up_by_topic() -> None:
    stats = TierStats()
    stats.count(REMOTE_COPY_BYTES, "a", 10)
    stats.count(REMOTE_COPY_BYTES, "a", 5)
    stats.count(REMOTE_COPY_BYTES, "b")
    assert [stats.counter(REMOTE_COPY_BYTES, topic) for topic in ("a", "b", "c", None)] == [15, 1, 0, 16]
    assert [(name, dict(values)) for name, values in stats.counters()] == [(REMOTE_COPY_BYTES, {"a": 15, "b": 1})]


def test_gauges_go_with_the_leadership() -> None:
    stats = TierStats()
    assert stats.gauge(REMOTE_COPY_LAG_BYTES, ORDERS_0) is None
    stats.set_gauge(REMOTE_COPY_LAG_BYTES, ORDERS_0, 7)
    assert stats.gauge(REMOTE_COPY_LAG_BYTES, ORDERS_0) == 7
    assert list(stats.gauges()) == [(REMOTE_COPY_LAG_BYTES, {ORDERS_0: 7})]
    stats.forget(ORDERS_0)
    assert stats.gauge(REMOTE_COPY_LAG_BYTES, ORDERS_0) is None
