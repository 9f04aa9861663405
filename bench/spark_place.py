"""An Apache Kafka whose topics are on its disk and, record for record, in its tier.

Starting it and writing the topics takes longer than most measurements, so that one serves all of them.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.loads import QUEUE, Deliveries
from bench.tier_nodes import LOCAL_STORAGE, TIER_SETTINGS
from crabka.cli.session import with_admin
from crabka.clients.admin.admin import Admin
from crabka.clients.fetcher.offsets import LATEST_TIERED
from crabka.ids import TopicPartition
from tests.support.kafka.oracle import BROKER_OPTIONS, JvmKafka, java_command, run_tool
from tests.support.wire.ports import free_port

PARTITIONS: Final = 4
BASE_MS: Final = 1_700_000_000_000
SMALL: Final = "small"
SMALL_ROWS: Final = 200_000
LARGE: Final = "large"
LARGE_VALUE_BYTES: Final = 8_192
_RUN_LENGTH: Final = 500
_SEGMENT_BYTES: Final = 32 << 20
_LARGE_SEGMENT_BYTES: Final = 1 << 30
_MAX_SEGMENT_BYTES: Final = (1 << 31) - 1
# A record that comes more than `segment.ms` after the first of its segment begins a new one.
_LATER_MS: Final = 8 * 24 * 3600 * 1000
_TIERED_S: Final = 600.0


class MeteredKafka(JvmKafka):
    """A node that tells how many bytes it sent."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory, settings)
        self._jmx_port = free_port()

    def bytes_sent(self, topic: str) -> int:
        """Return how many bytes of a topic were fetched so far."""
        name = f"kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={topic}"
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self._jmx_port}/jmxrmi"
        options = ("--one-time", "--attributes", "Count", "--report-format", "properties")
        tool = "org.apache.kafka.tools.JmxTool"
        said = run_tool(tool, "--jmx-url", url, "--object-name", name, *options, check=False)
        if said.code and "No matched attributes" in said.stderr:
            return 0  # of a topic that nobody has fetched from
        found = re.search(r"Count=(\d+)", said.stdout)
        if found is None:
            raise RuntimeError(f"Kafka does not tell what it sent: {said.stdout}{said.stderr}")
        return int(found[1])

    def _command(self) -> list[str]:
        jmx = ("port", str(self._jmx_port)), ("authenticate", "false"), ("ssl", "false"), ("host", "127.0.0.1")
        told = [f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in jmx]
        options = (*BROKER_OPTIONS, *told, "-Djava.rmi.server.hostname=127.0.0.1")
        return java_command("kafka.Kafka", str(self.properties_path), options=options)


class SparkPlace:
    """Makes what is asked for the first time. A context manager: afterwards nothing is left."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._node: MeteredKafka | None = None
        self._rows: dict[str, int] = {}
        self.directory = Path()

    def __enter__(self) -> Self:
        self.directory = Path(self._stack.enter_context(TemporaryDirectory(prefix="bench-spark-")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def node(self) -> MeteredKafka:
        """The running broker."""
        if self._node is None:
            self.tier.mkdir()
            storage = {"remote.log.storage.manager.class.name": LOCAL_STORAGE, "rsm.config.dir": str(self.tier)}
            node = MeteredKafka(self.directory / "kafka", TIER_SETTINGS | storage)
            self._node = self._stack.enter_context(node)
            self._make_rows(SMALL, SMALL_ROWS)
        return self._node

    @property
    def tier(self) -> Path:
        """The directory of the tier."""
        return self.directory / "tier"

    def topic(self, rows: int) -> str:
        """Return the name of the topic with so many records, once all of them are in the tier."""
        name = f"rows-{rows}"
        self._make_rows(name, rows)
        return name

    def large_topic(self, size_bytes: int) -> str:
        """Return the name of a topic with one partition and one segment of about so many bytes."""
        if LARGE not in self._rows:
            rows = min(size_bytes, _LARGE_SEGMENT_BYTES) // LARGE_VALUE_BYTES
            self._create(LARGE, 1, _MAX_SEGMENT_BYTES)
            # More values than fit in a batch, so that they do not get smaller.
            values = [os.urandom(LARGE_VALUE_BYTES) for _ in range(64)]
            with _Sending(self.node.bootstrap_servers, LARGE) as sending:
                for number in range(rows):
                    sending.send(values[number % 64], 0, BASE_MS + number)
            self._wait_tiered(LARGE, [rows])
            self._rows[LARGE] = rows
        return LARGE

    def _make_rows(self, topic: str, rows: int) -> None:
        if topic in self._rows:
            return
        if rows % (PARTITIONS * _RUN_LENGTH):
            raise ValueError(f"{rows} records cannot be spread evenly over {PARTITIONS} partitions")
        self._create(topic, PARTITIONS, _SEGMENT_BYTES)
        with _Sending(self.node.bootstrap_servers, topic, PARTITIONS) as sending:
            for number in range(rows):
                sending.send(value_of(number), number // _RUN_LENGTH % PARTITIONS, BASE_MS + number, b"%08d" % number)
        self._wait_tiered(topic, [rows // PARTITIONS] * PARTITIONS)
        self._rows[topic] = rows

    def _create(self, topic: str, partitions: int, segment_bytes: int) -> None:
        configs = {"remote.storage.enable": "true", "segment.bytes": str(segment_bytes), "retention.ms": "-1"}
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap_servers})
        admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(60)

    def _wait_tiered(self, topic: str, ends: list[int]) -> None:
        asked = {TopicPartition(topic, partition): LATEST_TIERED for partition in range(len(ends))}

        async def ask(admin: Admin) -> list[int]:
            answers = await admin.list_offsets(asked)
            return [answers[partition].offset + 1 for partition in asked]

        deadline = time.monotonic() + _TIERED_S
        while (found := with_admin(self.node.bootstrap_servers, ask)) != ends:
            if time.monotonic() > deadline:
                raise RuntimeError(f"of {topic} the tier has {found} instead of {ends}")
            time.sleep(0.5)


class _Sending:
    """Writes to a topic; at the end one more record per partition, with which all others get into the tier."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 1) -> None:
        batches = {"linger.ms": 50, "batch.size": 65_536, "compression.type": "lz4", "acks": "1"}
        self._producer = Producer({"bootstrap.servers": bootstrap, **batches, **QUEUE})
        self._topic = topic
        self._partitions = partitions
        self._delivered = Deliveries()
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._producer.flush(600)
            for partition in range(self._partitions):
                self.send(b"last", partition, BASE_MS + _LATER_MS)
            self._producer.flush(60)
            self._delivered.check(self._sent)

    def send(self, value: bytes, partition: int, timestamp: int, key: bytes | None = None) -> None:
        """Send one record."""
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, partition=partition, timestamp=timestamp, on_delivery=self._delivered
                )
                break
            except BufferError:
                self._producer.poll(0.05)
        self._sent += 1
        if self._sent % 1000 == 0:
            self._producer.poll(0)


def value_of(number: int) -> bytes:
    """A hundred bytes as they might come from an application."""
    mixed = number * 2654435761 % (1 << 32)
    text = '{"order":%d,"customer":"%08x","amount":%d.%02d,"currency":"EUR","state":"paid"'
    return (text % (number, mixed, mixed % 997, mixed % 89)).ljust(99).encode() + b"}"


PLACE: Final = SparkPlace()
