"""`python -m bench.cluster`: three combined nodes of each broker in turn, and the table."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.brokers import PARTITIONS, TOPIC, cpu_seconds, running
from bench.cluster_rows import CLUSTER_ROWS
from bench.failover import FAILOVERS, seconds_to_recover
from bench.loads import produce_paced
from bench.many_partitions import create_partitions, metadata_load_seconds, wait_all_told
from bench.stats import percentile
from bench.suite import Experiment, Suite, Watch, run_suite
from tests.support.cluster_process.cluster import ClusterProcesses, combined
from tests.support.cluster_process.nodes import ClusterNode, CrabkaClusterNode, JvmClusterNode
from tests.support.kafka.oracle import BROKER_OPTIONS

RATE = 5_000
LINGER_MS = 5


@dataclass(frozen=True, slots=True)
class ClusterWork:
    """How much work each experiment does."""

    kill_count: int = 3
    paced_seconds: float = 20.0
    topic_count: int = 10
    partitions_per_topic: int = 1_000


class RoomyJvmNode(JvmClusterNode):
    """Apache Kafka with the heap and the compilers that the other benchmarks give it."""

    options = BROKER_OPTIONS


NODES: dict[str, type[ClusterNode]] = {"kafka": RoomyJvmNode, "crabka": CrabkaClusterNode}


@contextmanager
def running_cluster(broker: str) -> Iterator[ClusterProcesses]:
    """Three nodes on empty directories, with every time-out as it comes."""
    with (
        TemporaryDirectory(prefix=f"bench-{broker}-") as directory,
        ClusterProcesses(Path(directory), NODES[broker], combined(3)) as cluster,
    ):
        yield cluster


def failover(broker: str, work: ClusterWork, _watch: Watch) -> Iterator[tuple[str, float]]:
    """kill -9 until the first acknowledgement of a record that was sent after it."""
    with running_cluster(broker) as cluster:
        for key in FAILOVERS:
            times = [seconds_to_recover(cluster, key, number) for number in range(work.kill_count)]
            yield key, statistics.median(times)


def replication(broker: str, work: ClusterWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """A steady load on a replicated topic: what it costs all nodes together."""
    with running_cluster(broker) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        produce_paced(cluster.bootstrap_servers, RATE, work.paced_seconds, linger_ms=LINGER_MS)
        with watch(cluster.nodes[1].pid):
            before = _cluster_cpu_seconds(cluster)
            latencies = produce_paced(cluster.bootstrap_servers, RATE, work.paced_seconds, linger_ms=LINGER_MS)
            used = _cluster_cpu_seconds(cluster) - before
    # A broker that cannot keep up works on after the last record was sent: that work belongs to the rate too.
    yield "cluster_cpu", 100 * used / work.paced_seconds
    yield "cluster_p99", percentile(latencies, 99)


def _cluster_cpu_seconds(cluster: ClusterProcesses) -> float:
    return sum(cpu_seconds(node) for node in cluster.nodes.values())


def partitions(broker: str, work: ClusterWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """Many partitions on one node: to create them, and to find them again at the next start."""
    total = work.topic_count * work.partitions_per_topic
    with running(broker) as node:
        with watch(node.pid):
            begin = time.perf_counter()
            create_partitions(node.bootstrap_servers, work.topic_count, work.partitions_per_topic)
            yield "creation", time.perf_counter() - begin
        node.stop(timeout_s=600)
        if broker == "crabka":
            yield "metadata_load", metadata_load_seconds(node.data_dir, total)
        begin = time.perf_counter()
        node.launch()
        wait_all_told(node.bootstrap_servers, total)
        yield "many_start", time.perf_counter() - begin


CLUSTER_EXPERIMENTS: dict[str, Experiment[ClusterWork]] = {
    "failover": failover,
    "replication": replication,
    "partitions": partitions,
}
CLUSTER = Suite(
    program="bench.cluster",
    rows=CLUSTER_ROWS,
    experiments=CLUSTER_EXPERIMENTS,
    full=ClusterWork(),
    quick=ClusterWork(1, 3.0, 2, 500),
    setting="three combined nodes each on empty directories, default time-outs, Kafka with 1 GiB heap and warm",
    name="cluster-latest",
    subject="Three nodes",
)

if __name__ == "__main__":
    sys.exit(run_suite(CLUSTER))
