"""Counters and their Prometheus text."""

from __future__ import annotations

from crabka.broker.lifecycle.metrics import collect_cuts, render_metrics
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.log.cleaner.cleaner import CleanerStats
from crabka.log.recovery.cuts import CutStats, LogCut
from crabka.protocol.apis import ApiKey
from crabka.serving.metrics import NodeMetrics
from tests.support.nodes.sim_node import SimNode, batch


def test_a_new_node_has_nothing_to_report() -> None:
    text = render_metrics(NodeMetrics(), PartitionRegistry(), CleanerStats()).decode()
    assert "crabka_partitions 0.0" in text
    assert "crabka_requests_total{" not in text


def test_requests_and_logs_are_shown(node: SimNode) -> None:
    node.create_topic("t", 2)
    node.produce("t", batch(b"a", b"b"), partition=1)
    text = render_metrics(node.context.metrics, node.context.partitions, node.context.cleaner.stats).decode()
    assert 'crabka_requests_total{api="produce"} 1.0' in text
    assert "crabka_partitions 2.0" in text
    assert 'crabka_log_end_offset{partition="1",topic="t"} 2.0' in text
    assert f'crabka_log_size_bytes{{partition="1",topic="t"}} {float(len(batch(b"a", b"b")))}' in text


def test_what_openings_cut_is_counted() -> None:
    stats = CutStats()
    stats.note_cut(LogCut("/d/t-0/0.log", 70, 30, 4, "torn"))
    stats.note_rebuilt("/d/t-0/0.index", "torn")
    text = render_metrics(NodeMetrics(), PartitionRegistry(), CleanerStats(), lambda: collect_cuts(stats, 2)).decode()
    assert "crabka_log_cuts_total 1.0" in text
    assert "crabka_log_cut_bytes_total 30.0" in text
    assert "crabka_log_rebuilt_files_total 1.0" in text
    assert "crabka_lossy_replicas 2.0" in text


def test_every_api_has_a_counter() -> None:
    assert len(NodeMetrics().requests) > max(ApiKey)
