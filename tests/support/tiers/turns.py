"""Crabka and Apache Kafka take turns on copies of one data directory and one tier.

Each turn checks what the former ones wrote, writes more, and waits until the tier is as the settings want it.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from crabka.cli.session import with_admin
from crabka.clients.fetcher.offsets import EARLIEST_LOCAL, LATEST, LATEST_TIERED, OffsetAndTimestamp
from crabka.ids import TopicPartition
from tests.support.kafka.oracle import LOCAL_TIER, JvmKafka
from tests.support.nodes.crabka_up import READY, crabka_command
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabka.clients.admin.admin import Admin

PARTITIONS = 2
REMOTE_ONLY, PARTLY_LOCAL = "remote-only", "partly-local"
LOCAL_BYTES = 50_000
_COMMON = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "20000",
    "index.interval.bytes": "500",
    "retention.ms": "-1",
}
TOPICS = {
    REMOTE_ONLY: {**_COMMON, "local.retention.ms": "1"},
    PARTLY_LOCAL: {**_COMMON, "local.retention.bytes": str(LOCAL_BYTES)},
}
PLACES = [TopicPartition(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_TIMEOUT_S = 120
FIRST_MS = 1_700_000_000_000
"""The timestamp of the first record of a partition; each has one millisecond more than that before it."""


class KafkaTurn(JvmKafka):
    """Apache Kafka with a tier; it formats its directory unless it finds data of another node."""

    def __init__(self, directory: Path) -> None:
        """Prepare the node; its tier is in the directory, too."""
        self.tier = directory / "tier"
        self.tier.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, LOCAL_TIER | {"rsm.config.dir": str(self.tier)})

    def format(self) -> None:
        """Write the properties, and format a new directory."""
        if self.data_dir.exists():
            self._write_properties()
        else:
            super().format()


class CrabkaTurn(KafkaTurn):
    """Crabka: `crabka up --tier` on a new directory, else `crabka serve` with the properties that Kafka would get."""

    name = "crabka"

    def format(self) -> None:
        """Write the properties."""
        self._write_properties()

    def _command(self) -> Sequence[str]:
        if self.data_dir.exists():
            return [str(crabka_command()), "serve", "--config", str(self.properties_path)]
        taken = {key: value for key, value in LOCAL_TIER.items() if not key.startswith("remote.log.storage")}
        settings = [f"--set={key}={value}" for key, value in taken.items()]
        where = ["--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self.port}"]
        return [str(crabka_command()), "up", *where, "--tier", f"file://{self.tier}", *settings]

    def _is_ready(self) -> bool:
        return READY in self.stdout_path.read_text()


@dataclass(slots=True)
class Written:
    """What consumers of either isolation level have to see, by partition."""

    uncommitted: dict[TopicPartition, list[bytes]] = field(default_factory=lambda: {place: [] for place in PLACES})
    committed: dict[TopicPartition, list[bytes]] = field(default_factory=lambda: {place: [] for place in PLACES})

    def add(self, place: TopicPartition, value: bytes, *, is_committed: bool) -> None:
        """Note a record."""
        self.uncommitted[place].append(value)
        if is_committed:
            self.committed[place].append(value)


def take_over(kind: type[KafkaTurn], former: KafkaTurn, directory: Path) -> KafkaTurn:
    """Return a node, not started yet, on a copy of what a stopped one left."""
    shutil.copytree(former.data_dir, directory / "data")
    shutil.copytree(former.tier, directory / "tier")
    return kind(directory)


def create_topics(bootstrap: str) -> None:
    """Create the topics, which differ in what stays on the disk."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, PARTITIONS, 1, config=config) for name, config in TOPICS.items()]
    for created in admin.create_topics(wanted).values():
        created.result(_TIMEOUT_S)


def write_turn(bootstrap: str, written: Written, turn: int) -> None:
    """Write plain records of every codec, and transactions of which every third is aborted."""
    rng = random.Random(turn)
    for number, codec in enumerate(_CODECS):
        settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "log_level": 0}
        plain = Producer({**settings, "enable.idempotence": True, "batch.num.messages": 7})
        for place in PLACES:
            _send(plain, written, place, _values(rng, 60))
        assert plain.flush(_TIMEOUT_S) == 0
        _transact(Producer({**settings, "transactional.id": f"turns-{number}"}), written, rng)


def _transact(producer: Producer, written: Written, rng: random.Random) -> None:
    producer.init_transactions(_TIMEOUT_S)
    for number in range(3):
        producer.begin_transaction()
        is_committed = number != 1
        for place in PLACES:
            _send(producer, written, place, _values(rng, 10), is_committed=is_committed)
        # An abort would drop what is not sent yet.
        assert producer.flush(_TIMEOUT_S) == 0
        end = producer.commit_transaction if is_committed else producer.abort_transaction
        end(_TIMEOUT_S)


def _values(rng: random.Random, count: int) -> list[bytes]:
    return [rng.randbytes(200).hex().encode() for _ in range(count)]


def _send(
    producer: Producer, written: Written, place: TopicPartition, values: list[bytes], *, is_committed: bool = True
) -> None:
    for value in values:
        timestamp = FIRST_MS + len(written.uncommitted[place])
        producer.produce(place.topic, value, partition=place.partition, timestamp=timestamp)
        written.add(place, value, is_committed=is_committed)


def wait_tiered(node: KafkaTurn) -> None:
    """Wait until all that is sealed is in the tier, and no more on the disk than the settings want."""
    wait_until(lambda: _is_tiered(node), "the tier is complete", timeout_s=120)


def _is_tiered(node: KafkaTurn) -> bool:
    ends, tiered, local = (list_offsets(node, spec) for spec in (LATEST, LATEST_TIERED, EARLIEST_LOCAL))
    if ends != list_offsets(node, LATEST, read_committed=True):
        return False
    return all(_is_place_tiered(node, place, (ends[place][0], tiered[place][0], local[place][0])) for place in PLACES)


def _is_place_tiered(node: KafkaTurn, place: TopicPartition, offsets: tuple[int, int, int]) -> bool:
    end, tiered, local = offsets
    if place.topic == REMOTE_ONLY:
        return end == tiered + 1 == local
    segments = sorted((node.data_dir / f"{place.topic}-{place.partition}").glob("*.log"))
    sizes = [path.stat().st_size for path in segments]
    is_trimmed = sum(sizes) - sizes[0] < LOCAL_BYTES and int(segments[0].stem) == local
    return is_trimmed and int(segments[-1].stem) == tiered + 1


def list_offsets(
    node: KafkaTurn, timestamp: int, *, read_committed: bool = False
) -> dict[TopicPartition, tuple[int, int]]:
    """Return offset and timestamp that the node finds in each partition."""

    async def ask(admin: Admin) -> Mapping[TopicPartition, OffsetAndTimestamp]:
        return await admin.list_offsets(dict.fromkeys(PLACES, timestamp), read_committed=read_committed)

    found = with_admin(node.bootstrap_servers, ask)
    return {place: (found[place].offset, found[place].timestamp) for place in PLACES}
