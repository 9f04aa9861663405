"""The state of log dirs in Prometheus form, under the names that Kafka's have after a JMX exporter (KIP-1066)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from crabka.log.log_dirs import LogDirs

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
