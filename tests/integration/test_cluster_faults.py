"""Clusters of real processes under load while nodes are killed, frozen, restarted and cut off.

Every record that an idempotent acks=all producer was promised is there once and in order, and copies made with
transactions are equal to the original. How long each kind of fault kept a partition from taking writes is reported.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clients.target import target_cluster_node
from tests.support.cluster_process.cluster import ClusterProcesses, combined, separate
from tests.support.cluster_process.copier import CopierProcess
from tests.support.cluster_process.faults import FaultInjector, FaultTimes, report
from tests.support.cluster_process.load import SequencedLoad
from tests.support.cluster_process.networks import best_network
from tests.support.cluster_process.reading import read_committed
from tests.support.scale import scaled, soaking

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from tests.support.cluster_process.nodes import NodeSpec

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(0 if soaking() else 300),
    pytest.mark.allow_leaks("librdkafka keeps its descriptors and threads until it is collected"),
]

REPORTS = Path(__file__).parents[2] / "bench" / "results"
ORIGINAL, COPY = "original", "copy"
PARTITIONS = 6
SHAPES = {"three-combined": combined(3), "three-and-three": separate(3, 3)}
# A normal run has no time for Kafka's time-outs; a soak runs with all of them.
HASTY = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500", "replica.lag.time.max.ms": "4000"}


@pytest.fixture(params=SHAPES)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClusterProcesses]:
    """A running cluster of each shape."""
    shape: list[NodeSpec] = SHAPES[request.param]
    settings = {} if soaking() else HASTY
    with ClusterProcesses(tmp_path, target_cluster_node(), shape, network=best_network(), settings=settings) as running:
        yield running


def _copiers(cluster: ClusterProcesses, directory: Path) -> list[CopierProcess]:
    halves = [list(range(first, PARTITIONS, 2)) for first in range(2)]
    return [CopierProcess(directory, cluster.bootstrap_servers, ORIGINAL, COPY, half) for half in halves]


def _write_report(title: str, text: str) -> None:
    print("\n" + text)
    if soaking():
        (REPORTS / f"faults-{title}.md").write_text(text)


def test_promises_are_kept_through_faults(
    cluster: ClusterProcesses, tmp_path: Path, rng: random.Random, request: pytest.FixtureRequest
) -> None:
    for topic in (ORIGINAL, COPY):
        cluster.create_topic(topic, PARTITIONS)
    load = SequencedLoad(cluster.bootstrap_servers, ORIGINAL, PARTITIONS)
    times = FaultTimes() if soaking() else FaultTimes(pause_s=5.0, partition_s=5.0, most_down_s=1.0)
    injector = FaultInjector(cluster, load, rng, times, [ORIGINAL, COPY, "__consumer_offsets", "__transaction_state"])
    with contextlib.ExitStack() as ending:
        load.start()
        ending.callback(load.stop)
        copiers = _copiers(cluster, tmp_path)
        for copier in copiers:
            ending.callback(copier.kill)
        injector.run(scaled(len(injector.kinds), 100))
        load.stop()
        for copier in copiers:
            print(copier.finish())
    originals = read_committed(cluster.admin(), cluster.bootstrap_servers, ORIGINAL, PARTITIONS)
    load.check(originals)
    copies = read_committed(cluster.admin(), cluster.bootstrap_servers, COPY, PARTITIONS)
    for partition, (original, copy) in enumerate(zip(originals, copies, strict=True)):
        wanted, found = [value for _, value in original], [value for _, value in copy]
        assert found == wanted, f"{COPY}-{partition} has {len(found)} records, the original {len(wanted)}"
    title = f"{cluster.kind}-{request.node.callspec.id}"
    _write_report(title, report(f"{title}: {load.acknowledged_count:,} records acknowledged", injector.outages))
