"""The state of log dirs and of moves between them in Prometheus form.

What Kafka has too (KIP-1066) has the names of Kafka after a JMX exporter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from crabka.broker.logdirs.move_registry import MoveRegistry
    from crabka.log.dirs.log_dirs import LogDirs

_NAME: Final = "kafka_log_logmanager"


def collect_log_dirs(dirs: LogDirs) -> Iterator[Metric]:
    """Yield which log dirs are offline or cordoned, each by itself and counted."""
    from prometheus_client.core import GaugeMetricFamily

    offline, cordoned = dirs.offline, dirs.cordoned
    yield GaugeMetricFamily(f"{_NAME}_offlinelogdirectorycount", "Log dirs that failed", value=len(offline))
    yield GaugeMetricFamily(f"{_NAME}_cordonedlogdirectorycount", "Log dirs that are cordoned", value=len(cordoned))
    is_offline = GaugeMetricFamily(f"{_NAME}_logdirectoryoffline", "1 if a log dir failed", labels=["logdirectory"])
    is_cordoned = GaugeMetricFamily(
        f"{_NAME}_logdirectorycordoned", "1 if a log dir takes no new replicas", labels=["logdirectory"]
    )
    for each in dirs:
        is_offline.add_metric([each.path], each.path in offline)
        is_cordoned.add_metric([each.path], each.path in cordoned)
    yield from (is_offline, is_cordoned)


def collect_moves(moves: MoveRegistry) -> Iterator[Metric]:
    """Yield what moves have done since the start of the node, and how far those are that run."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    stats = moves.stats
    ended = CounterMetricFamily("crabka_replica_moves", "Moves that ended", labels=["outcome"])
    for outcome, count in (("moved", stats.moved), ("cancelled", stats.cancelled), ("failed", stats.failed)):
        ended.add_metric([outcome], count)
    yield ended
    yield CounterMetricFamily("crabka_replica_move_bytes", "Bytes that ended moves copied", value=stats.bytes_written)
    labels = ["topic", "partition", "logdirectory"]
    copied = GaugeMetricFamily("crabka_replica_move_copied_bytes", "Bytes of a future replica", labels=labels)
    lag = GaugeMetricFamily("crabka_replica_move_offset_lag", "Offsets that it lacks", labels=labels)
    for each in moves.progress():
        names = [each.topic, str(each.partition), each.target_dir]
        copied.add_metric(names, each.size_bytes)
        lag.add_metric(names, each.offset_lag)
    yield from (copied, lag)
