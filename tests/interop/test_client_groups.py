"""Consumer groups of the classic protocol with real clients: join, leave, kill, static restart, commit and resume."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from kafka import KafkaConsumer

from tests.support.clients.target import target_node
from tests.support.kafka.oracle import run_tool
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")]

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
COUNT = 30
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node whose first rebalance does not wait for more members."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with target_node(tmp_path_factory.mktemp("groups"), settings) as running:
        yield running


@pytest.fixture
def group() -> str:
    """A fresh group name."""
    return f"group-{next(_numbers)}"


def _fill(bootstrap: str, topic: str, partitions: int = 1, count: int = COUNT) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(120) == 0


def _consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    defaults = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 30_000,
        "heartbeat.interval.ms": 300,
        "log_level": 0,
    }
    return Consumer({**defaults, **{name.replace("_", "."): value for name, value in settings.items()}})


def _poll_until_assigned(consumers: list[Consumer], counts: list[int]) -> None:
    """Poll all consumers until each owns as many partitions as it should."""

    def reached() -> bool:
        for consumer in consumers:
            consumer.poll(0.05)
        return [len(consumer.assignment()) for consumer in consumers] == counts

    wait_until(reached, "the members own what they should")


def _read(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    deadline = time.monotonic() + 120
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    return found


def _owned(consumers: list[Consumer]) -> list[tuple[str, int]]:
    return sorted((each.topic, each.partition) for consumer in consumers for each in consumer.assignment())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_are_shared_by_members_that_come_and_go(
    bootstrap: str, make_topic: TopicMaker, group: str, strategy: str
) -> None:
    topic = make_topic(4)
    first = _consumer(bootstrap, group, partition_assignment_strategy=strategy)
    second = _consumer(bootstrap, group, partition_assignment_strategy=strategy)
    first.subscribe([topic])
    _poll_until_assigned([first], [4])
    second.subscribe([topic])
    _poll_until_assigned([first, second], [2, 2])
    assert _owned([first, second]) == [(topic, index) for index in range(4)]
    second.close()
    _poll_until_assigned([first], [4])
    first.close()


def test_a_member_that_dies_is_replaced_after_its_session(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic(2)
    living, dying = (
        _consumer(bootstrap, group),
        _consumer(bootstrap, group, session_timeout_ms=6000, max_poll_interval_ms=6000),
    )
    living.subscribe([topic])
    dying.subscribe([topic])
    _poll_until_assigned([living, dying], [1, 1])
    # It is no longer polled: librdkafka leaves the group for it, as a stuck application does.
    _poll_until_assigned([living], [2])
    living.close()
    dying.close()


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, group: str
) -> None:
    topic = make_topic(2)
    revoked: list[int] = []
    stays = _consumer(bootstrap, group, group_instance_id="stays")
    leaves = _consumer(bootstrap, group, group_instance_id="leaves")
    stays.subscribe([topic], on_revoke=lambda _consumer, partitions: revoked.append(len(partitions)))
    leaves.subscribe([topic])
    _poll_until_assigned([stays, leaves], [1, 1])
    revoked.clear()
    before = {member.group_instance_id: member.member_id for member in _describe(admin, group).members}
    owned = _owned([leaves])
    leaves.close()
    back = _consumer(bootstrap, group, group_instance_id="leaves")
    back.subscribe([topic])
    _poll_until_assigned([stays, back], [1, 1])
    assert _owned([back]) == owned
    assert revoked == []
    after = {member.group_instance_id: member.member_id for member in _describe(admin, group).members}
    assert after["stays"] == before["stays"]
    assert after["leaves"] != before["leaves"]
    stays.close()
    back.close()


def _describe(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group])[group].result(120)


def test_a_consumer_resumes_where_its_group_committed(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    _fill(bootstrap, topic)
    first = _consumer(bootstrap, group)
    first.subscribe([topic])
    assert _read(first, 10)[:10] == [b"%d" % number for number in range(10)]
    first.commit(offsets=[TopicPartition(topic, 0, 10, "note")], asynchronous=False)
    first.close()
    second = _consumer(bootstrap, group)
    second.subscribe([topic])
    assert _read(second, COUNT - 10) == [b"%d" % number for number in range(10, COUNT)]
    (committed,) = second.committed([TopicPartition(topic, 0)], timeout=120)
    assert committed.offset == 10
    second.close()


def test_groups_and_offsets_survive_kill(bootstrap: str, node: NodeProcess, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    _fill(bootstrap, topic)
    consumer = _consumer(bootstrap, group)
    consumer.subscribe([topic])
    _read(consumer, 5)
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    node.kill()
    node.start()
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=120)
    assert committed.offset == 5
    # The member is still one: its session goes on at the restarted node.
    _poll_until_assigned([consumer], [1])
    consumer.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
    consumer.close()


def test_aiokafka_commits_and_resumes(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    _fill(bootstrap, topic)

    async def read(count: int) -> list[bytes | None]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            found = [await asyncio.wait_for(consumer.getone(), 30) for _ in range(count)]
            await consumer.commit()
        finally:
            await consumer.stop()
        return [message.value for message in found]

    assert asyncio.run(read(12)) == [b"%d" % number for number in range(12)]
    assert asyncio.run(read(COUNT - 12)) == [b"%d" % number for number in range(12, COUNT)]


def test_kafka_python_commits_and_resumes(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    _fill(bootstrap, topic)

    def read(count: int) -> list[bytes]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=count,
            consumer_timeout_ms=30_000,
        )
        found = [message.value for message in itertools.islice(consumer, count)]
        consumer.commit()
        consumer.close()
        return found

    assert read(12) == [b"%d" % number for number in range(12)]
    assert read(COUNT - 12) == [b"%d" % number for number in range(12, COUNT)]


def test_admin_clients_list_alter_and_delete(
    bootstrap: str, admin: AdminClient, make_topic: TopicMaker, group: str
) -> None:
    topic = make_topic()
    consumer = _consumer(bootstrap, group)
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()
    listed = {each.group_id: each for each in admin.list_consumer_groups().result(120).valid}
    assert listed[group].state.name == "EMPTY"
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
    admin.alter_consumer_group_offsets([wanted])[group].result(120)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(120)
    assert [(each.topic, each.partition, each.offset) for each in found.topic_partitions] == [(topic, 0, 3)]
    admin.delete_consumer_groups([group])[group].result(120)
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(120).valid}


@pytest.mark.usefixtures("jvm")
def test_kafka_consumer_groups_lists_describes_resets_and_deletes(
    bootstrap: str, make_topic: TopicMaker, group: str
) -> None:
    topic = make_topic(2)
    _fill(bootstrap, topic, 2)

    def tool(*arguments: str) -> str:
        return run_tool(GROUPS_TOOL, "--bootstrap-server", bootstrap, *arguments).stdout

    consumer = _consumer(bootstrap, group, client_id="reader")
    consumer.subscribe([topic])
    _poll_until_assigned([consumer], [2])
    offsets = [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 4)]
    consumer.commit(offsets=offsets, asynchronous=False)
    described = tool("--describe", "--group", group)
    row = next(line.split() for line in described.splitlines() if f"{topic} " in line and " 5 " in line)
    assert row[:6] == [group, topic, "0", "5", "15", "10"]
    assert "Stable" in tool("--describe", "--group", group, "--state")
    assert "reader" in tool("--describe", "--group", group, "--members", "--verbose")
    consumer.close()
    assert group in tool("--list").split()
    assert "Empty" in tool("--list", "--state")
    reset = ["--group", group, "--topic", topic, "--reset-offsets"]
    shifted = [line.split() for line in tool(*reset, "--shift-by", "2", "--dry-run").splitlines() if topic in line]
    assert sorted(line[:4] for line in shifted) == [[group, topic, "0", "7"], [group, topic, "1", "6"]]
    tool(*reset, "--to-earliest", "--execute")
    lags = [line.split()[3:6] for line in tool("--describe", "--group", group).splitlines() if topic in line]
    assert lags == [["0", "15", "15"], ["0", "15", "15"]]
    assert "successful" in tool("--delete", "--group", group)
    assert group not in tool("--list").split()


@pytest.mark.usefixtures("jvm")
def test_console_consumer_with_a_group_resumes(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    _fill(bootstrap, topic)

    def read(count: int) -> list[str]:
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
        return run_tool(
            CONSOLE_CONSUMER, *arguments, "--max-messages", str(count), "--timeout-ms", "30000"
        ).stdout.split()

    assert read(10) == [str(number) for number in range(10)]
    assert read(COUNT - 10) == [str(number) for number in range(10, COUNT)]
