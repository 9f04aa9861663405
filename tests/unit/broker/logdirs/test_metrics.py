"""The page of metrics of log dirs."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from crabka.broker.logdirs.metrics import collect_log_dirs
from crabka.log.log_dirs import LogDirs
from crabka.testing import MemoryFileSystem


def test_lost_and_cordoned_dirs_are_shown() -> None:
    dirs = LogDirs(MemoryFileSystem(), ["/a", "/b", "/c"])
    dirs.fail("/a", "EIO")
    dirs.cordon(["/b", "/c"])

    class Collector:
        def collect(self) -> Iterator[Metric]:
            return collect_log_dirs(dirs)

    registry = CollectorRegistry()
    registry.register(Collector())
    page = generate_latest(registry).decode()
    for line in (
        "kafka_log_logmanager_offlinelogdirectorycount 1.0",
        "kafka_log_logmanager_cordonedlogdirectorycount 2.0",
        'kafka_log_logmanager_logdirectoryoffline{logdirectory="/a"} 1.0',
        'kafka_log_logmanager_logdirectoryoffline{logdirectory="/b"} 0.0',
        'kafka_log_logmanager_logdirectorycordoned{logdirectory="/c"} 1.0',
    ):
        assert line in page
