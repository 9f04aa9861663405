"""The numbers of the remote tier in Prometheus form, under the names that Kafka's have after a JMX exporter.

`RemoteCopyBytesPerSec` of BrokerTopicMetrics is the counter `kafka_server_brokertopicmetrics_remotecopybytes_total`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from crabka.broker.tiering.stats import TierStats

_TOPICS: Final = "kafka_server_brokertopicmetrics"
_READER: Final = "kafka_log_remote_remotelogmanager"
_OWN: Final = "crabka_"
_RATE_SUFFIX: Final = "PerSec"


class ReaderLoad(Protocol):
    """How busy the threads are that read from the tier."""

    @property
    def queue_size(self) -> int:
        """How many reads wait for a thread."""
        ...

    @property
    def idle_share(self) -> float:
        """The share of threads that have nothing to do."""
        ...


def collect_tier(stats: TierStats, reader: ReaderLoad | None = None) -> Iterator[Metric]:
    """Yield the metrics of the tier: counters by topic, gauges by partition, and the load of the reader."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, by_topic in stats.counters():
        counter = CounterMetricFamily(_metric_name(name), f"{name}, as a sum", labels=["topic"])
        for topic, value in by_topic.items():
            counter.add_metric([topic], value)
        yield counter
    for name, by_partition in stats.gauges():
        gauge = GaugeMetricFamily(_metric_name(name), name, labels=["topic", "partition"])
        for partition, value in by_partition.items():
            gauge.add_metric([partition.topic, str(partition.partition)], value)
        yield gauge
    if reader is not None:
        waiting, idle = "RemoteLogReaderTaskQueueSize", "RemoteLogReaderAvgIdlePercent"
        yield GaugeMetricFamily(f"{_READER}_{waiting.lower()}", waiting, value=reader.queue_size)
        yield GaugeMetricFamily(f"{_READER}_{idle.lower()}", idle, value=reader.idle_share)


def _metric_name(name: str) -> str:
    if name.startswith(_OWN):
        return name
    return f"{_TOPICS}_{name.removesuffix(_RATE_SUFFIX).lower()}"
