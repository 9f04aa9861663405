"""Flipped bytes in the files of a cluster of real processes, one node at a time, running and stopped.

Afterwards every acknowledged record is readable, the replicas are equal on disk, no file is damaged, and each repair is
in the log of its node.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from crabka.log.healing.offline_check import check_directory
from crabka.vfs import OsFileSystem
from tests.support.cluster_process.cluster import ClusterProcesses, combined
from tests.support.cluster_process.nodes import ClusterNode, CrabkaClusterNode
from tests.support.cluster_process.reading import read_committed
from tests.support.faults.rotting_files import flip_byte, has_whole_twin
from tests.support.nodes.process import NodeError, wait_until
from tests.support.scale import scaled, soaking

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(0 if soaking() else 300),
    pytest.mark.allow_leaks("librdkafka keeps its descriptors and threads until it is collected"),
]

TOPIC, PARTITIONS, COMPACTED = "rot", 2, "compacted"
FLIPS_PER_ROUND = 4
# The files of logs beside which the metadata of the cluster is kept are judged elsewhere.
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "checkpoint", "partition.metadata")
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "crabka.log.scrub.interval.ms": "300",
    "crabka.log.scrub.max.bytes.per.second": "100000000",
    "crabka.log.scrub.max.cpu.percent": "50",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three nodes with topics of small segments."""
    directory = tmp_path_factory.mktemp("rot")
    with ClusterProcesses(directory, CrabkaClusterNode, combined(3), settings=SETTINGS) as running:
        config = {"internal.segment.bytes": "16384", "index.interval.bytes": "512", "min.insync.replicas": "2"}
        compacted = {**config, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.99"}
        for topic in (
            NewTopic(TOPIC, PARTITIONS, 3, config=config),
            NewTopic(COMPACTED, 1, 3, config=compacted),
        ):
            running.admin().create_topics([topic])[topic.topic].result(120)
        running.wait_in_sync([TOPIC, COMPACTED])
        yield running


def produce(cluster: ClusterProcesses, first: int, count: int) -> list[list[bytes]]:
    """Write numbered records in transactions, of which every third aborts; return what was committed."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "rot", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(60)
    committed: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for number in range(first, first + count):
        producer.begin_transaction()
        is_aborted = number % 3 == 2
        for step in range(10):
            value = b"%s %d %d %s" % (b"aborted" if is_aborted else b"kept", number, step, b"x" * 200)
            producer.produce(TOPIC, value, partition=number % PARTITIONS)
            if not is_aborted:
                committed[number % PARTITIONS].append(value)
        if is_aborted:
            producer.flush(120)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    return committed


def log_paths(node: ClusterNode) -> list[Path]:
    return [node.data_dir / f"{TOPIC}-{partition}" for partition in range(PARTITIONS)]


def contents(node: ClusterNode) -> list[bytes]:
    """Return the batches of each log of a node."""
    return [b"".join(each.read_bytes() for each in sorted(path.glob("*.log"))) for path in log_paths(node)]


def problems(node: ClusterNode) -> list[str]:
    fs = OsFileSystem()
    return [f"{each.file}: {each.reason}" for path in log_paths(node) for each in check_directory(fs, str(path))]


def is_whole(cluster: ClusterProcesses) -> bool:
    """Whether all replicas are equal on disk and no file of them is damaged."""
    try:
        found = [contents(node) for node in cluster.brokers]
        return all(each == found[0] for each in found) and not any(map(problems, cluster.brokers))
    except FileNotFoundError:
        # A file that was written anew a moment ago.
        return False


def flip_somewhere(rng: random.Random, node: ClusterNode) -> str:
    """Change one byte of one file, each kind as often as the others; return which."""
    suffix = rng.choice(SUFFIXES)
    places = [node.data_dir, *log_paths(node)] if suffix == "checkpoint" else log_paths(node)
    files = [
        path
        for place in places
        for path in sorted(place.iterdir())
        if path.name.endswith(suffix) and path.is_file() and path.stat().st_size and has_whole_twin(path)
    ]
    flip = flip_byte(rng, suffix, files) if files else None
    return f"node {node.node_id}, {flip}" if flip is not None else f"no {suffix}"


def wait_whole(cluster: ClusterProcesses, flips: list[str]) -> None:
    cluster.wait_in_sync([TOPIC])
    try:
        wait_until(lambda: is_whole(cluster), "all replicas are whole")
    except NodeError as error:
        seen = {node.node_id: problems(node) for node in cluster.brokers}
        sizes = {node.node_id: [len(each) for each in contents(node)] for node in cluster.brokers}
        said = "\n".join(line for node in cluster.brokers for line in repairs(node)[-20:])
        raise NodeError(f"{error}: {flips}: {seen} {sizes}\n{said}") from None


def repairs(node: ClusterNode) -> list[str]:
    words = ("repaired", "damaged", "written anew", "rebuilt", "cut", "read from the batches", "gave up")
    return [
        line for line in node.stderr_text().splitlines() if "INFO" not in line and any(word in line for word in words)
    ]


def test_flipped_bytes_are_repaired(cluster: ClusterProcesses, rng: random.Random) -> None:
    committed = produce(cluster, 0, 60)
    wait_whole(cluster, [])
    number = 60
    for round_ in range(scaled(2, 66)):
        node = rng.choice(cluster.brokers)
        is_stopped = round_ % 3 > 0
        if round_ % 3 == 1:
            node.stop()
        elif round_ % 3 == 2:
            node.kill()
        flips = [flip_somewhere(rng, node) for _ in range(FLIPS_PER_ROUND)]
        if is_stopped:
            node.start()
            cluster.wait_registered()
        more = produce(cluster, number, 6)
        number += 6
        for partition, values in enumerate(more):
            committed[partition] += values
        wait_whole(cluster, flips)
        assert all(each.is_alive() for each in cluster.brokers)
    stored = read_committed(cluster.admin(), cluster.bootstrap_servers, TOPIC, PARTITIONS)
    assert [[value for _, value in each] for each in stored] == committed
    said = [line for node in cluster.brokers for line in repairs(node)]
    assert any("are repaired from the replica on broker" in line for line in said)


def leader_of(cluster: ClusterProcesses, topic: str) -> int:
    ((leader, _, _),) = cluster.partition_states(cluster.server_list[0], [topic])
    return leader


def test_a_leader_that_cannot_be_repaired_in_place_hands_over_and_begins_anew(cluster: ClusterProcesses) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "linger.ms": 0})
    for number in range(100):
        producer.produce(COMPACTED, b"value %d %s" % (number, b"x" * 300), key=b"key %d" % number)
        producer.flush(120)
    leader = leader_of(cluster, COMPACTED)
    node = cluster.nodes[leader]
    path = min((node.data_dir / f"{COMPACTED}-0").glob("*.log"))
    whole = path.read_bytes()
    # A sector is gone with the headers in it: what was compacted there no other replica has for certain.
    with path.open("r+b") as file:
        file.seek(1024)
        file.write(bytes(1024))
    wait_until(lambda: leader_of(cluster, COMPACTED) != leader, "another broker leads")
    wait_until(lambda: path.exists() and path.read_bytes() == whole, "the replica is fetched anew")
    cluster.wait_in_sync([COMPACTED])
    stored = read_committed(cluster.admin(), cluster.bootstrap_servers, COMPACTED, 1)
    assert len(stored[0]) == 100
    assert any("gave up its part" in line for line in repairs(node))
