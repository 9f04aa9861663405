"""Starts one of the two brokers as a child process and reads its CPU time and memory from /proc."""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka.oracle import JvmKafka
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import NodeProcess
from tests.support.wire.ports import free_port

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TOPIC = "perf"
PARTITIONS = 6
# A killed broker of Kafka may not register again before its old session has ended, 9 s by default. That wait says
# nothing about opening logs, so it is made short.
SHORT_SESSION = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "250"}
BROKERS = ("kafka", "crabka")


@contextmanager
def prepared(broker: str, settings: Mapping[str, str] | None = None) -> Iterator[NodeProcess]:
    """A node on an empty directory, not started; its process and directory are gone afterwards."""
    settings = settings or {}
    with TemporaryDirectory(prefix=f"bench-{broker}-") as directory:
        node: NodeProcess = CrabkaProcess(Path(directory), settings)
        if broker == "kafka":
            node = JvmKafka(Path(directory), SHORT_SESSION | dict(settings))
        if isinstance(node, JvmKafka):
            node.format()
        node.port = node.port or free_port()
        try:
            yield node
        finally:
            node.kill()


@contextmanager
def running(broker: str, settings: Mapping[str, str] | None = None) -> Iterator[NodeProcess]:
    """A started node on an empty directory."""
    with prepared(broker, settings) as node:
        yield node.start()


def create_topic(node: NodeProcess, name: str = TOPIC, partitions: int = PARTITIONS) -> None:
    """Create a topic and wait for it."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


def topic_id(node: NodeProcess, name: str) -> uuid.UUID:
    """The id of a topic."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    found = admin.describe_topics(TopicCollection([name]))[name].result(60).topic_id
    return uuid.UUID(bytes=base64.urlsafe_b64decode(str(found) + "=="))


def cpu_seconds(node: NodeProcess) -> float:
    """User and system time of all threads of the node so far."""
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def resident_megabytes(node: NodeProcess) -> float:
    """Resident memory of the node in megabytes (10^6 bytes)."""
    return int(Path(f"/proc/{node.pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6
