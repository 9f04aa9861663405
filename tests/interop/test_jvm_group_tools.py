"""Kafka's own tools on groups: every kind of reset, deleted offsets, performance and verifiable clients."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition

from tests.support.clients.target import target_node
from tests.support.kafka.oracle import run_tool
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
    pytest.mark.usefixtures("jvm"),
]

TOOLS = "org.apache.kafka.tools"
COUNT = 20
COMMITTED = 5
# Records are a day apart and begin here.
FIRST_TIMESTAMP = 1_700_000_000_000
DAY_MS = 86_400_000
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node whose first rebalance does not wait for more members."""
    with target_node(tmp_path_factory.mktemp("tools"), {"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture
def group() -> str:
    """A fresh group name."""
    return f"tools-{next(_numbers)}"


@pytest.fixture
def topic(bootstrap: str, make_topic: TopicMaker) -> str:
    """A topic with records that are a day apart."""
    name = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(COUNT):
        producer.produce(name, b"%d" % number, partition=0, timestamp=FIRST_TIMESTAMP + number * DAY_MS)
    assert producer.flush(120) == 0
    return name


def commit(bootstrap: str, group: str, topic: str) -> None:
    """Let a group without members have read some records."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})

    def done() -> bool:
        # The first commit of all may come while a broker still makes the offsets topic.
        with contextlib.suppress(KafkaException):
            consumer.commit(offsets=[TopicPartition(topic, 0, COMMITTED)], asynchronous=False)
            return True
        return False

    wait_until(done, "the coordinator takes a commit")
    consumer.close()


def committed(admin: AdminClient, group: str) -> dict[str, int]:
    """What a group has committed, by topic."""
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(120)
    return {each.topic: each.offset for each in found.topic_partitions}


def groups_tool(bootstrap: str, group: str, *arguments: str) -> str:
    """Run kafka-consumer-groups for a group."""
    main_class = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    return run_tool(main_class, "--bootstrap-server", bootstrap, "--group", group, *arguments).stdout


def test_consumer_groups_resets_in_every_way(
    bootstrap: str, topic: str, group: str, admin: AdminClient, tmp_path: Path
) -> None:
    commit(bootstrap, group, topic)
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,9\n")
    whole = ["--topic", topic]
    resets: list[tuple[list[str], int]] = [
        ([*whole, "--to-latest"], COUNT),
        ([*whole, "--to-offset", "999"], COUNT),
        ([*whole, "--to-datetime", "2023-11-16T12:00:00.000"], 2),
        ([*whole, "--by-duration", "P1D"], COUNT),
        (["--all-topics", "--to-current"], COUNT),
        ([*whole, "--shift-by", "-4"], COUNT - 4),
        (["--from-file", str(plan)], 9),
    ]
    for arguments, offset in resets:
        shown = groups_tool(bootstrap, group, "--reset-offsets", *arguments, "--execute")
        rows = [line.split() for line in shown.splitlines() if line.startswith(f"{group} ")]
        assert [row[:4] for row in rows] == [[group, topic, "0", str(offset)]], shown
        assert committed(admin, group) == {topic: offset}


def test_consumer_groups_deletes_offsets(bootstrap: str, topic: str, group: str, admin: AdminClient) -> None:
    commit(bootstrap, group, topic)
    shown = groups_tool(bootstrap, group, "--delete-offsets", "--topic", topic)
    assert "Successful" in shown
    assert committed(admin, group) == {}


def test_consumer_perf_test_reads_with_a_group(bootstrap: str, topic: str, group: str, admin: AdminClient) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--num-records", str(COUNT)]
    shown = run_tool(f"{TOOLS}.ConsumerPerformance", *arguments, "--timeout", "30000").stdout
    header, row = ([cell.strip() for cell in line.split(",")] for line in shown.splitlines()[-2:])
    (counted,) = [cell for name, cell in zip(header, row, strict=True) if name.startswith("data.consumed.in.n")]
    assert int(counted) == COUNT
    assert committed(admin, group) == {topic: COUNT}


def events(output: str) -> list[dict[str, Any]]:
    """The JSON lines of a verifiable client."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_verifiable_producer_and_consumer_agree(
    bootstrap: str, make_topic: TopicMaker, group: str, admin: AdminClient
) -> None:
    topic = make_topic()
    place = ["--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", str(COUNT)]
    sent = events(run_tool(f"{TOOLS}.VerifiableProducer", *place, "--acks", "-1").stdout)
    delivered = [int(event["value"]) for event in sent if event["name"] == "producer_send_success"]
    assert sorted(delivered) == list(range(COUNT))
    reading = [*place, "--group-id", group, "--reset-policy", "earliest", "--verbose"]
    seen = events(run_tool(f"{TOOLS}.VerifiableConsumer", *reading).stdout)
    read = [int(event["value"]) for event in seen if event["name"] == "record_data"]
    assert read == list(range(COUNT))
    assert all(event["success"] for event in seen if event["name"] == "offsets_committed")
    assert "shutdown_complete" in {event["name"] for event in seen}
    assert committed(admin, group) == {topic: COUNT}
