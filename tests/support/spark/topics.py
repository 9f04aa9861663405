"""Topics for tests through Spark: a broker with a tier, and records of all kinds made from a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from crabka.clients import NewTopic, SyncAdmin
from crabka.clients.fetcher.offsets import EARLIEST_LOCAL
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from tests.support.kafka.oracle import LOCAL_TIER, JvmKafka, require_jvm

SETTINGS = {
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
# Timestamps of the records lie years back, which retention must not take for a reason to delete them.
KEPT = {"retention.ms": "-1"}
TIERED = KEPT | {"remote.storage.enable": "true", "internal.segment.bytes": "3000", "index.interval.bytes": "500"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BASE_MS = 1_700_000_000_000
TIME_SPAN_MS = 100_000
_WAIT_S = 120.0


class Place(NamedTuple):
    """A broker with a tier."""

    bootstrap: str
    tier: Path
    tells_tier: bool = True

    @property
    def tier_options(self) -> dict[str, str]:
        """What our source needs to know of the tier: nothing, unless the broker hides it."""
        return {} if self.tells_tier else {"tier.uri": f"file://{self.tier}"}


@contextmanager
def tiered_broker(directory: Path) -> Iterator[Place]:
    """Run a broker in a process of its own, whose tier is a directory."""
    tier = directory / "tier"
    tier.mkdir(parents=True)
    with Broker(data_dir=str(directory / "data"), tier=tier, settings=SETTINGS, process=True) as broker:
        yield Place(broker.bootstrap_servers, tier)


@contextmanager
def tiered_kafka(directory: Path) -> Iterator[Place]:
    """Run Apache Kafka with a tier, which it does not publish."""
    require_jvm()
    tier = directory / "tier"
    tier.mkdir(parents=True)
    with JvmKafka(directory, LOCAL_TIER | {"rsm.config.dir": str(tier)}) as node:
        yield Place(node.bootstrap_servers, tier, tells_tier=False)


# What Spark reads from must not matter; Apache Kafka takes its time.
CLUSTERS = ["crabka", pytest.param("kafka", marks=pytest.mark.soak)]


@contextmanager
def tiered_cluster(kind: str, directory: Path) -> Iterator[Place]:
    """Run one of CLUSTERS."""
    with (tiered_kafka if kind == "kafka" else tiered_broker)(directory) as running:
        yield running


def create_topic(place: Place, name: str, partitions: int = 2, **configs: str) -> None:
    """Create a topic; underscores in names of configs are dots."""
    named = KEPT | {key.replace("_", "."): value for key, value in configs.items()}
    with SyncAdmin(place.bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, named)])


def create_tiered_topic(place: Place, name: str, partitions: int = 2) -> None:
    """Create a topic whose segments leave the disk as soon as they are copied."""
    with SyncAdmin(place.bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, TIERED | {"local.retention.ms": "1"})])


def fill(
    place: Place, topic: str, seed: int, *, partitions: int = 2, batches: int = 12, null_keys: bool = True
) -> None:
    """Write batches of all codecs: null keys and values, headers, transactions, timestamps that go up and down."""
    rng = random.Random(seed)
    keys = [b"k%d" % number for number in range(5)] + ([None, b""] if null_keys else [])
    plain = [
        Producer({"bootstrap.servers": place.bootstrap, "compression.type": codec, "linger.ms": 5}) for codec in CODECS
    ]
    transactional = Producer({"bootstrap.servers": place.bootstrap, "transactional.id": f"{topic}-{seed}"})
    transactional.init_transactions(30)
    for _ in range(batches):
        in_transaction = rng.random() < 0.4
        producer = transactional if in_transaction else rng.choice(plain)
        if in_transaction:
            producer.begin_transaction()
        for _ in range(rng.randrange(1, 25)):
            _send(producer, topic, rng, rng.randrange(partitions), rng.choice(keys))
        producer.flush(120)
        if in_transaction:
            (producer.abort_transaction if rng.random() < 0.5 else producer.commit_transaction)(30)


def _send(producer: Producer, topic: str, rng: random.Random, partition: int, key: bytes | None) -> None:
    headers: list[tuple[str, str | bytes | None]] = [
        (rng.choice("abc"), rng.choice([None, b"", b"x" * 9])) for _ in range(rng.choice([0, 0, 1, 3]))
    ]
    producer.produce(
        topic,
        value=rng.choice([None, b"", rng.randbytes(rng.randrange(1, 200))]),
        key=key,
        partition=partition,
        headers=headers,
        timestamp=BASE_MS + rng.randrange(TIME_SPAN_MS),
    )


def wait_for_tier(place: Place, topic: str, partitions: int = 2) -> None:
    """Wait until something of each partition is in the tier only."""
    wanted = {TopicPartition(topic, index): EARLIEST_LOCAL for index in range(partitions)}
    deadline = time.monotonic() + _WAIT_S
    with SyncAdmin(place.bootstrap) as admin:
        while time.monotonic() < deadline:
            if all(answer.offset > 0 for answer in admin.list_offsets(wanted).values()):
                return
            time.sleep(0.1)
    raise AssertionError(f"nothing of {topic} left the disk in {_WAIT_S} s")
