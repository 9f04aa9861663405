"""Kafka's transactional copier while the node is killed many times: every record arrives once, in order."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.clients.foreign_transactions import read_settled
from tests.support.clients.target import target_node
from tests.support.kafka.oracle import java_command
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
]

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PARTITIONS = 2
# A copier gets through some thousand records a second; the kills must find it at work.
RECORDS_PER_KILL = 2_000
# Small internal topics start faster; a killed Kafka may register again soon.
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that is quick to come back."""
    with target_node(tmp_path_factory.mktemp("copier"), SETTINGS) as running:
        yield running


class Copier:
    """One process that copies one partition; ends by itself when it has copied what was there at its start."""

    def __init__(self, bootstrap: str, directory: Path, source: str, sink: str, partition: int) -> None:
        """Start the process."""
        arguments = ["--broker-list", bootstrap, "--input-topic", source, "--input-partition", str(partition)]
        arguments += ["--output-topic", sink, "--consumer-group", f"copiers-{partition}", "--transaction-size", "100"]
        arguments += ["--transactional-id", f"copier-{partition}", "--enable-random-aborts", "--use-group-metadata"]
        self._out = directory / f"copier-{partition}.out"
        with self._out.open("wb") as out:
            command = java_command(COPIER, *arguments)
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    def copied_count(self) -> int:
        """How many records it says to have committed."""
        lines = self._out.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.startswith("{") and line.endswith("\n")]
        return int(json.loads(whole[-1])["totalProcessed"]) if whole else 0

    def wait_done(self) -> None:
        """Wait until everything is copied; raises with the output when the copier failed."""
        code = self.process.wait(120)
        assert code == 0, self._out.read_text()[-3000:]


def _fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 50})
    for number in range(count):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % number, partition=partition)
        producer.poll(0)
    assert producer.flush(120) == 0


def _wait_copied(copiers: list[Copier], goal: int) -> None:
    def reached() -> bool:
        return max(copier.copied_count() for copier in copiers) >= goal

    wait_until(reached, f"a copier has copied {goal} records")


def test_copies_are_exact_while_the_node_is_killed(
    node: NodeProcess, admin: AdminClient, make_topic: TopicMaker, tmp_path: Path, rng: random.Random
) -> None:
    kills = scaled(3, 20)
    count = RECORDS_PER_KILL * (kills + 1)
    source, sink = make_topic(PARTITIONS), make_topic(PARTITIONS)
    _fill(node.bootstrap_servers, source, count)
    copiers = [Copier(node.bootstrap_servers, tmp_path, source, sink, partition) for partition in range(PARTITIONS)]
    try:
        for number in range(kills):
            goal = number * RECORDS_PER_KILL + rng.randrange(1, RECORDS_PER_KILL)
            _wait_copied(copiers, goal)
            node.kill()
            node.start()
        for copier in copiers:
            copier.wait_done()
    finally:
        for copier in copiers:
            copier.process.kill()
            copier.process.wait()
    expected = [b"%d" % number for number in range(count)]
    for partition, values in enumerate(read_settled(admin, node.bootstrap_servers, sink, PARTITIONS)):
        assert values == expected, f"partition {partition} has {len(values)} of {count} records"
