"""The life of a node with very many partitions beside a good client: create, write, stop, start, kill, delete."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import create_topic, prepared, resident_megabytes
from bench.loads import QUEUE, Deliveries
from bench.many_partitions import REQUEST_SECONDS, wait_all_told
from bench.suite import Experiment, Watch
from crabka.runtime.limits import raise_open_file_limit
from tests.support.kafka.oracle import JvmKafka
from tests.support.nodes.process import NodeProcess

GOOD_TOPIC = "good"
PAUSE_SECONDS = 0.005
STOP_SECONDS = 1800.0
# Crabka shows that it needs no more; Kafka gets all that this process may have.
CRABKA_OPEN_FILES = 4096
KAFKA_OPTIONS = ("-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
# What a broker of Kafka opens and maps beside its logs: jars, sockets, the heap.
KAFKA_OTHER_FILES = 1000
KAFKA_OTHER_MAPS = 5000
MAP_LIMIT = Path("/proc/sys/vm/max_map_count")
# A client that gives up early asks anew, and a slow node would only have more to do.
PATIENT = {"request.timeout.ms": 600_000, "message.timeout.ms": 900_000}


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """How many partitions there are, in topics of so many."""

    topic_count: int = 500
    partitions_per_topic: int = 100

    @property
    def count(self) -> int:
        """All partitions."""
        return self.topic_count * self.partitions_per_topic

    @property
    def names(self) -> list[str]:
        """The names of the topics."""
        return [f"many-{number}" for number in range(self.topic_count)]


QUICK_PARTITIONS = PartitionWork(60, 20)


def fitting(work: PartitionWork, open_files: int, maps: int) -> PartitionWork:
    """Return as much of the work as a broker of Kafka can do: it opens a file and maps two for each partition."""
    most = min(work.count, open_files - KAFKA_OTHER_FILES, (maps - KAFKA_OTHER_MAPS) // 2)
    return replace(work, topic_count=max(most // work.partitions_per_topic, 1))


def _limited(node: NodeProcess, work: PartitionWork) -> PartitionWork:
    """Set the limits of a node and return what it can do."""
    node.start_timeout_s = STOP_SECONDS
    if not isinstance(node, JvmKafka):
        node.open_files = CRABKA_OPEN_FILES
        return work
    node.options = KAFKA_OPTIONS
    maps = int(MAP_LIMIT.read_text()) if MAP_LIMIT.exists() else sys.maxsize
    return fitting(work, raise_open_file_limit(), maps)


class PatientClient:
    """Sends one record after the other to a topic of its own and notes the longest wait for an acknowledgement."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **PATIENT})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.longest_ms = 0.0

    def _run(self) -> None:
        while not self._is_over.is_set():
            begin = time.perf_counter()
            delivered = Deliveries()
            self._producer.produce(GOOD_TOPIC, b"good", partition=0, on_delivery=delivered)
            self._producer.flush(REQUEST_SECONDS)
            delivered.check(1)
            self.longest_ms = max(self.longest_ms, (time.perf_counter() - begin) * 1000)
            self._is_over.wait(PAUSE_SECONDS)

    def __enter__(self) -> PatientClient:
        """Begin with a record that nobody measures: it brings the metadata."""
        self._producer.produce(GOOD_TOPIC, b"first", partition=0)
        self._producer.flush(REQUEST_SECONDS)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._is_over.set()
        self._thread.join()
        # Or it would try to connect all the while a node is stopped.
        del self._producer


@contextmanager
def _timed(found: dict[str, float], key: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    found[key] = time.perf_counter() - begin


def _create(node: NodeProcess, work: PartitionWork) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    for name in work.names:
        wanted = [NewTopic(name, work.partitions_per_topic, 1)]
        admin.create_topics(wanted, request_timeout=REQUEST_SECONDS)[name].result(REQUEST_SECONDS)
    wait_all_told(node.bootstrap_servers, work.count)


def _delete(node: NodeProcess, work: PartitionWork) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    for name in work.names:
        admin.delete_topics([name], request_timeout=REQUEST_SECONDS)[name].result(REQUEST_SECONDS)


def _write(node: NodeProcess, work: PartitionWork) -> None:
    delivered = Deliveries()
    producer = Producer(
        {"bootstrap.servers": node.bootstrap_servers, "acks": "all", "linger.ms": 50, **QUEUE, **PATIENT}
    )
    for name in work.names:
        for index in range(work.partitions_per_topic):
            producer.produce(name, b"one", partition=index, on_delivery=delivered)
        producer.poll(0)
    producer.flush(REQUEST_SECONDS)
    delivered.check(work.count)


def _start(node: NodeProcess, work: PartitionWork) -> None:
    node.start()
    wait_all_told(node.bootstrap_servers, work.count)


def _open_count(node: NodeProcess) -> float:
    return float(len(list(Path(f"/proc/{node.pid}/fd").iterdir())))


def partitions(broker: str, work: PartitionWork, watch: Watch) -> Iterator[tuple[str, float]]:
    """Take one node through all of it."""
    found: dict[str, float] = {}
    with prepared(broker) as node:
        work = _limited(node, work)
        found["partitions"] = work.count
        node.start()
        create_topic(node, GOOD_TOPIC, 1)
        empty_megabytes = resident_megabytes(node)
        with watch(node.pid):
            with PatientClient(node.bootstrap_servers) as good, _timed(found, "create"):
                _create(node, work)
            found["create_wait"] = good.longest_ms
            with PatientClient(node.bootstrap_servers) as good, _timed(found, "write"):
                _write(node, work)
        found["write_wait"] = good.longest_ms
        found["memory"] = (resident_megabytes(node) - empty_megabytes) * 1000 / work.count
        found["descriptors"] = _open_count(node)
        with _timed(found, "stop"):
            node.stop(timeout_s=STOP_SECONDS)
        with _timed(found, "start_clean"):
            _start(node, work)
        node.kill()
        with _timed(found, "start_killed"):
            _start(node, work)
        with PatientClient(node.bootstrap_servers) as good, _timed(found, "delete"):
            _delete(node, work)
        found["delete_wait"] = good.longest_ms
    found["longest_wait"] = max(found["create_wait"], found["write_wait"], found["delete_wait"])
    yield from found.items()


PARTITION_EXPERIMENTS: dict[str, Experiment[PartitionWork]] = {"partitions": partitions}
