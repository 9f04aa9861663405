"""The tier's page of metrics."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from crabka.broker.tiering.metrics import collect_tier
from crabka.broker.tiering.stats import (
    REMOTE_COPY_BYTES,
    REMOTE_COPY_LAG_SEGMENTS,
    TierStats,
)
from crabka.ids import TopicPartition


@dataclass(frozen=True)
class Load:
    queue_size: int = 7
    idle_share: float = 0.25


def page(metrics: list[Metric]) -> str:
    class Collector:
        def collect(self) -> list[Metric]:
            return metrics

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry).decode()


def test_counters_and_gauges_have_the_names_of_kafka() -> None:
    stats = TierStats()
    stats.count(REMOTE_COPY_BYTES, "orders", 500)
    stats.set_gauge(REMOTE_COPY_LAG_SEGMENTS, TopicPartition("orders", 3), 2)
    text = page(list(collect_tier(stats, Load())))
    assert 'kafka_server_brokertopicmetrics_remotecopybytes_total{topic="orders"} 500.0' in text
    assert 'kafka_server_brokertopicmetrics_remotecopylagsegments{partition="3",topic="orders"} 2.0' in text
    assert "kafka_log_remote_remotelogmanager_remotelogreadertaskqueuesize 7.0" in text
    assert "kafka_log_remote_remotelogmanager_remotelogreaderavgidlepercent 0.25" in text


def test_a_tier_that_did_nothing_has_nothing_to_report() -> None:
    assert list(collect_tier(TierStats())) == []
