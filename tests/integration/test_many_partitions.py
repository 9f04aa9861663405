"""A node with far more partitions than it may have files open: create, write, stop, kill, start, delete."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError, Message

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps its descriptors until it is collected"),
    pytest.mark.timeout(3600 if scaled(0, 1) else 120),
]

OPEN_FILES = scaled(256, 4096)
TOPICS = scaled(30, 500)
PARTITIONS = scaled(30, 100)
REQUEST_S = 300.0


class LimitedProcess(CrabkaProcess):
    """A node that may open only so many files."""

    start_timeout_s = 600.0
    open_files = OPEN_FILES

    @property
    def open_count(self) -> int:
        """How many descriptors the process has."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LimitedProcess]:
    with LimitedProcess(tmp_path / "node") as process:
        yield process


def create_topics(node: LimitedProcess) -> list[str]:
    names = [f"many-{number}" for number in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    for start in range(0, TOPICS, 10):
        wanted = [NewTopic(name, PARTITIONS, 1) for name in names[start : start + 10]]
        for future in admin.create_topics(wanted, request_timeout=REQUEST_S).values():
            future.result(REQUEST_S)
    return names


def write_everywhere(node: LimitedProcess, names: list[str], value: bytes) -> None:
    failures: list[KafkaError] = []
    acknowledged = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "acks": "all", "linger.ms": 20})
    for name in names:
        for index in range(PARTITIONS):
            producer.produce(name, value, partition=index, on_delivery=delivered)
        producer.poll(0)
    producer.flush(REQUEST_S)
    assert not failures
    assert acknowledged == len(names) * PARTITIONS


def values_everywhere(node: LimitedProcess, names: list[str], count: int) -> dict[tuple[str, int], list[bytes]]:
    """Read so many records of each partition."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "none", "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(name, index, 0) for name in names for index in range(PARTITIONS)])
    found: dict[tuple[str, int], list[bytes]] = {}
    missing = len(names) * PARTITIONS * count
    while missing:
        messages = consumer.consume(missing, timeout=120)
        assert messages, f"{missing} records are missing"
        for message in messages:
            assert message.error() is None
            found.setdefault((str(message.topic()), int(message.partition() or 0)), []).append(message.value() or b"")
        missing -= len(messages)
    consumer.close()
    return found


def open_connections(node: LimitedProcess, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", node.port), timeout=30) for _ in range(count)]


def test_partitions_are_not_limited_by_descriptors(node: LimitedProcess) -> None:
    names = create_topics(node)
    assert len(names) * PARTITIONS > OPEN_FILES
    write_everywhere(node, names, b"first")
    assert node.open_count < OPEN_FILES

    assert node.stop(timeout_s=REQUEST_S) == 0
    node.start()
    write_everywhere(node, names, b"second")

    node.kill()
    node.start()
    found = values_everywhere(node, names, 2)
    assert found == {(name, index): [b"first", b"second"] for name in names for index in range(PARTITIONS)}

    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    for start in range(0, TOPICS, 10):
        for future in admin.delete_topics(names[start : start + 10], request_timeout=REQUEST_S).values():
            future.result(REQUEST_S)
    left = [path.name for path in node.data_dir.iterdir() if path.name.startswith("many-")]
    assert left
    assert all(name.endswith("-delete") for name in left)
    assert "is offline" not in node.stderr_text()


def test_connections_are_refused_before_descriptors_run_out(node: LimitedProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic("good", 1, 1)])["good"].result(REQUEST_S)
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "none"})
    assert consumer.get_watermark_offsets(TopicPartition("good", 0), timeout=120) == (0, 0)

    crowd = open_connections(node, OPEN_FILES + 50)
    wait_until(lambda: "refusing connections" in node.stderr_text(), "connections are refused")
    # Who is connected goes on, and so do the logs.
    assert consumer.get_watermark_offsets(TopicPartition("good", 0), timeout=120) == (0, 0)
    assert node.open_count < OPEN_FILES
    for each in crowd:
        each.close()

    def is_served() -> bool:
        with socket.create_connection(("127.0.0.1", node.port), timeout=30) as late:
            late.settimeout(0.2)
            try:
                return late.recv(1) != b""
            except TimeoutError:
                return True  # the node waits for a request
            except ConnectionResetError:
                return False

    wait_until(is_served, "connections are accepted again")
    consumer.close()
    assert node.stderr_text().count("refusing connections") == 1
    assert node.is_alive()
