"""The page of metrics of log dirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from crabka.broker.logdirs.metrics import collect_log_dirs, collect_moves
from crabka.broker.logdirs.move_events import MoveState
from crabka.broker.logdirs.move_registry import MoveProgress, MoveStats
from crabka.log.dirs.log_dirs import LogDirs
from crabka.testing import MemoryFileSystem


def page_of(collect: Callable[[], Iterator[Metric]]) -> str:
    class Collector:
        def collect(self) -> Iterator[Metric]:
            return collect()

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry).decode()


def test_lost_and_cordoned_dirs_are_shown() -> None:
    dirs = LogDirs(MemoryFileSystem(), ["/a", "/b", "/c"])
    dirs.fail("/a", "EIO")
    dirs.cordon(["/b", "/c"])
    page = page_of(lambda: collect_log_dirs(dirs))
    for line in (
        "kafka_log_logmanager_offlinelogdirectorycount 1.0",
        "kafka_log_logmanager_cordonedlogdirectorycount 2.0",
        'kafka_log_logmanager_logdirectoryoffline{logdirectory="/a"} 1.0',
        'kafka_log_logmanager_logdirectoryoffline{logdirectory="/b"} 0.0',
        'kafka_log_logmanager_logdirectorycordoned{logdirectory="/c"} 1.0',
    ):
        assert line in page


def test_moves_are_counted_and_those_that_run_are_shown() -> None:
    running = MoveProgress("t", 3, "/a", "/b", MoveState.COPYING, 10, 40, 7, 5.0)
    stats = MoveStats(moved=2, cancelled=1, failed=0, bytes_written=99)
    moves: Any = SimpleNamespace(stats=stats, progress=lambda: [running])
    page = page_of(lambda: collect_moves(moves))
    for line in (
        'crabka_replica_moves_total{outcome="moved"} 2.0',
        'crabka_replica_moves_total{outcome="cancelled"} 1.0',
        "crabka_replica_move_bytes_total 99.0",
        'crabka_replica_move_copied_bytes{logdirectory="/b",partition="3",topic="t"} 10.0',
        'crabka_replica_move_offset_lag{logdirectory="/b",partition="3",topic="t"} 7.0',
    ):
        assert line in page
