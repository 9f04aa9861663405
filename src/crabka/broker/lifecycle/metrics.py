"""The state and the counters of a node in Prometheus form, built on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.protocol.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.log.cleaner.cleaner import CleanerStats
    from crabka.log.recovery.cuts import CutStats
    from crabka.serving.metrics import NodeMetrics

    CollectMore = Callable[[], Iterable[Metric]]


class NodeCollector:
    """Turns the state of a node into Prometheus metrics on demand."""

    def __init__(
        self,
        metrics: NodeMetrics,
        partitions: PartitionRegistry,
        cleaner: CleanerStats,
        more: CollectMore | None = None,
    ) -> None:
        """`more` yields what only some nodes have, such as a remote tier."""
        self._metrics = metrics
        self._partitions = partitions
        self._cleaner = cleaner
        self._more = more

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are not checked for clashes at registration."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily("crabka_requests", "Requests received, by API", labels=["api"])
        for key, count in enumerate(self._metrics.requests):
            if count:
                requests.add_metric([ApiKey(key).name.lower()], count)
        yield requests
        yield GaugeMetricFamily("crabka_partitions", "Partitions hosted by this node", value=len(self._partitions))
        labels = ["topic", "partition"]
        size = GaugeMetricFamily("crabka_log_size_bytes", "Bytes of a partition's log", labels=labels)
        start = GaugeMetricFamily("crabka_log_start_offset", "First offset of a partition", labels=labels)
        end = GaugeMetricFamily("crabka_log_end_offset", "Next offset of a partition", labels=labels)
        for partition in self._partitions:
            names = [partition.topic, str(partition.index)]
            size.add_metric(names, partition.log.size_bytes)
            start.add_metric(names, partition.log.log_start_offset)
            end.add_metric(names, partition.log.log_end_offset)
        yield from (size, start, end)
        yield from self._collect_cleaner()
        if self._more is not None:
            yield from self._more()

    def _collect_cleaner(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        stats, name = self._cleaner, "crabka_log_cleaner"
        yield CounterMetricFamily(f"{name}_cleanings", "Logs cleaned", value=stats.cleanings)
        yield CounterMetricFamily(f"{name}_read_bytes", "Bytes that cleaning read", value=stats.bytes_read)
        yield CounterMetricFamily(f"{name}_written_bytes", "Bytes that cleaning wrote", value=stats.bytes_written)
        last_s = stats.last_cleaning_ms / 1000
        yield GaugeMetricFamily(f"{name}_last_cleaning_seconds", "When the last cleaning ended", value=last_s)
        ratio = stats.max_dirty_ratio
        yield GaugeMetricFamily(f"{name}_max_dirty_ratio", "Dirty share of the dirtiest log", value=ratio)
        failed = stats.uncleanable
        yield GaugeMetricFamily(f"{name}_uncleanable_partitions", "Logs whose cleaning failed", value=failed)


def collect_cuts(stats: CutStats, lossy_count: int) -> Iterator[Metric]:
    """Yield what openings of logs took away or had to build anew, and how many replicas may not lead for it."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield CounterMetricFamily("crabka_log_cuts", "Ends of logs that were cut at their opening", value=stats.cuts)
    yield CounterMetricFamily("crabka_log_cut_bytes", "Bytes that were cut", value=stats.cut_bytes)
    rebuilt = stats.rebuilt_files
    yield CounterMetricFamily("crabka_log_rebuilt_files", "Damaged indexes, snapshots, checkpoints", value=rebuilt)
    yield GaugeMetricFamily("crabka_lossy_replicas", "Replicas that lost records and may not lead", value=lossy_count)


def render_metrics(
    metrics: NodeMetrics, partitions: PartitionRegistry, cleaner: CleanerStats, more: CollectMore | None = None
) -> bytes:
    """Return the Prometheus text of a node and its process."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    registry.register(NodeCollector(metrics, partitions, cleaner, more))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
