"""Transactions of our own producer, in both versions, with Crabka and with Apache Kafka as the broker.

What was committed is read by librdkafka, not by our own client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabka.clients import (
    NewTopic,
    ProducerFencedError,
    ProducerSettings,
    SyncAdmin,
    SyncProducer,
    TransactionError,
)
from crabka.clients.producer.transaction_messages import TRANSACTION_VERSION
from crabka.ids import TopicPartition
from tests.support.clients.foreign_transactions import READ_COMMITTED, read_to_end
from tests.support.kafka.oracle import JvmKafka, require_jvm
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.nodes.process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")]

UPGRADE, SAFE_DOWNGRADE = 1, 2
ROUNDS = 5


@pytest.fixture(scope="module", params=["crabka", "jvm"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of either kind, whatever the other tests judge."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "jvm":
        require_jvm()
    with JvmKafka(directory) if request.param == "jvm" else CrabkaProcess(directory) as running:
        yield running


def set_version(bootstrap: str, version: int) -> None:
    """Finalize a version of transactions, and wait until new connections see it."""

    def level() -> int:
        with SyncAdmin(bootstrap) as fresh:
            return fresh.cluster.describe_features()[TRANSACTION_VERSION].finalized

    if (current := level()) != version:
        with SyncAdmin(bootstrap) as admin:
            direction = UPGRADE if version > current else SAFE_DOWNGRADE
            admin.cluster.update_features({TRANSACTION_VERSION: version}, upgrade_type=direction)
        wait_until(lambda: level() == version, f"transactions have version {version}")


def settings(topic: str) -> ProducerSettings:
    return ProducerSettings(transactional_id=f"id-{topic}", batch_bytes=100)


@pytest.mark.parametrize("version", [2, 1])
def test_committed_records_and_offsets_are_there_once(bootstrap: str, version: int) -> None:
    set_version(bootstrap, version)
    topic, group = f"exact-{version}", f"group-{version}"
    progress = TopicPartition(topic, 0)
    with SyncAdmin(bootstrap) as admin, SyncProducer(bootstrap, settings(topic)) as producer:
        admin.create_topics([NewTopic(topic, 2, 1)])
        producer.init_transactions()
        for turn in range(ROUNDS):
            with producer.transaction():
                for number in range(10):
                    producer.send(topic, b"%d-%d" % (turn, number), partition=number % 2)
                producer.send_offsets_to_transaction({progress: turn + 1}, group)
            producer.begin_transaction()
            producer.send(topic, b"aborted", partition=0)
            producer.flush()
            producer.send_offsets_to_transaction({progress: 1_000}, group)
            producer.abort_transaction()
        committed = [
            [b"%d-%d" % (turn, number) for turn in range(ROUNDS) for number in range(index, 10, 2)] for index in (0, 1)
        ]
        wait_until(
            lambda: read_to_end(bootstrap, topic, 2, READ_COMMITTED) == committed, "the last markers are written"
        )
        wait_until(lambda: admin.groups.list_offsets(group)[progress].offset == ROUNDS, "the last offset is committed")


@pytest.mark.parametrize("version", [2, 1])
def test_successor_fences_the_producer_before_it(bootstrap: str, version: int) -> None:
    set_version(bootstrap, version)
    topic = f"fenced-{version}"
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with SyncProducer(bootstrap, settings(topic)) as first, SyncProducer(bootstrap, settings(topic)) as second:
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"first", partition=0)
        first.flush()
        second.init_transactions()
        first.send(topic, b"zombie", partition=0)
        with pytest.raises(TransactionError):
            first.commit_transaction()
        with pytest.raises(ProducerFencedError):
            first.abort_transaction()
        with second.transaction():
            second.send(topic, b"second", partition=0)
        wait_until(
            lambda: read_to_end(bootstrap, topic, 1, READ_COMMITTED) == [[b"second"]], "the last marker is written"
        )
