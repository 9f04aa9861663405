"""What is measured on clusters and how good is good enough."""

from __future__ import annotations

from bench.rows import BenchRow


def _seconds(key: str, title: str, experiment: str, bar: float) -> BenchRow:
    return BenchRow(key, title, "s", experiment, higher_is_better=False, bar=bar, stretch=None, absolute=True)


def _ratio(key: str, title: str, unit: str, experiment: str, bar: float | None) -> BenchRow:
    return BenchRow(key, title, unit, experiment, higher_is_better=False, bar=bar, stretch=None)


CLUSTER_ROWS = (
    _seconds("leader_kill", "leader kill -9 until the next acknowledged write", "failover", 2.0),
    _seconds("controller_kill", "active controller, a follower: kill -9 until the next write", "failover", 2.0),
    _seconds("both_kill", "active controller and leader: kill -9 until the next write", "failover", 2.0),
    _ratio("cluster_cpu", "CPU of three nodes, 5,000 msg/s, RF=3, acks=all", "% of a core", "replication", 0.7),
    _ratio("cluster_p99", "p99 produce latency, 5,000 msg/s, RF=3, acks=all", "ms", "replication", None),
    _ratio("creation", "create 10,000 partitions on one node", "s", "partitions", 1.0),
    _seconds("metadata_load", "load the metadata of 10,000 partitions", "partitions", 3.0),
    _ratio("many_start", "start with 10,000 partitions until all are told to clients", "s", "partitions", None),
)
