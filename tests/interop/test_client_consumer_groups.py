"""Consumer groups of KIP-848 with real clients: join, leave, kill, static restart, patterns, moves of protocols."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

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

# A process that joins and then hangs until it is killed.
HANGING_MEMBER = """
import sys
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer", "log_level": 0})
consumer.subscribe([topic])
while not consumer.assignment():
    consumer.poll(0.1)
print("joined", flush=True)
while True:
    consumer.poll(0.1)
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node whose groups react fast."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.session.timeout.ms": "3000",
        "group.consumer.session.timeout.ms": "5000",
        "group.consumer.assignment.interval.ms": "0",
    }
    with target_node(tmp_path_factory.mktemp("consumer-groups"), settings) as running:
        yield running


@pytest.fixture
def group() -> str:
    """A fresh group name."""
    return f"consumer-group-{next(_numbers)}"


def _fill(bootstrap: str, topic: str, partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(120) == 0


def _consumer(bootstrap: str, group: str, *, classic: bool = False, **settings: Any) -> Consumer:
    defaults: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 1000,
        "log_level": 0,
    }
    if classic:
        defaults |= {"group.protocol": "classic", "heartbeat.interval.ms": 200, "session.timeout.ms": 30_000}
    return Consumer({**defaults, **{name.replace("_", "."): value for name, value in settings.items()}})


def _poll_until_assigned(consumers: list[Consumer], counts: list[int]) -> None:
    """Poll all consumers until each owns as many partitions as it should."""

    def reached() -> bool:
        for consumer in consumers:
            consumer.poll(0.05)
        return [len(consumer.assignment()) for consumer in consumers] == counts

    wait_until(reached, f"the members own {counts}")


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


def _describe(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group], request_timeout=120)[group].result(120)


def _wait_for_state(admin: AdminClient, group: str, state: ConsumerGroupState, kind: ConsumerGroupType) -> None:
    def reached() -> bool:
        described = _describe(admin, group)
        return bool(described.state is state and described.type is kind)

    wait_until(reached, f"the group is {state} and {kind}")


def test_partitions_are_shared_by_members_that_come_and_go(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, group: str
) -> None:
    topic = make_topic(4)
    first, second = _consumer(bootstrap, group), _consumer(bootstrap, group)
    first.subscribe([topic])
    _poll_until_assigned([first], [4])
    second.subscribe([topic])
    _poll_until_assigned([first, second], [2, 2])
    assert _owned([first, second]) == [(topic, index) for index in range(4)]
    _wait_for_state(admin, group, ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    second.close()
    _poll_until_assigned([first], [4])
    first.close()
    _wait_for_state(admin, group, ConsumerGroupState.EMPTY, ConsumerGroupType.CONSUMER)


def test_a_killed_member_is_replaced_after_its_session(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic(2)
    with subprocess.Popen(
        [sys.executable, "-c", HANGING_MEMBER, bootstrap, group, topic], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        living = _consumer(bootstrap, group)
        living.subscribe([topic])
        _poll_until_assigned([living], [1])
        process.kill()
    _poll_until_assigned([living], [2])
    living.close()


def test_a_static_member_comes_back_to_what_it_had(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, group: str
) -> None:
    topic = make_topic(2)
    stays = _consumer(bootstrap, group, group_instance_id="stays")
    leaves = _consumer(bootstrap, group, group_instance_id="leaves")
    revoked: list[int] = []
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
    back.close()
    stays.close()


def test_a_pattern_finds_topics_that_come_later(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, group: str
) -> None:
    topic = make_topic(2)
    consumer = _consumer(bootstrap, group)
    consumer.subscribe([f"^{topic}(-more)?$"])
    _poll_until_assigned([consumer], [2])
    admin.create_topics([NewTopic(f"{topic}-more", 1, 1)])[f"{topic}-more"].result(120)
    _poll_until_assigned([consumer], [3])
    consumer.close()


def test_new_partitions_are_assigned(bootstrap: str, make_topic: TopicMaker, admin: AdminClient, group: str) -> None:
    topic = make_topic(1)
    consumer = _consumer(bootstrap, group)
    consumer.subscribe([topic])
    _poll_until_assigned([consumer], [1])
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(120)
    _poll_until_assigned([consumer], [3])
    consumer.close()


def test_a_group_resumes_where_it_committed(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    _fill(bootstrap, topic)
    first = _consumer(bootstrap, group)
    first.subscribe([topic])
    assert _read(first, 10) == [b"%d" % number for number in range(10)]
    first.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
    first.close()
    second = _consumer(bootstrap, group)
    second.subscribe([topic])
    assert _read(second, COUNT - 10) == [b"%d" % number for number in range(10, COUNT)]
    second.close()


@pytest.mark.parametrize(("assignor", "same_numbers"), [("range", True), ("uniform", False)])
def test_the_assignor_is_chosen_by_the_client(
    bootstrap: str, make_topic: TopicMaker, group: str, assignor: str, *, same_numbers: bool
) -> None:
    topics = [make_topic(3), make_topic(3)]
    members = [_consumer(bootstrap, group, group_remote_assignor=assignor) for _ in range(2)]
    for member in members:
        member.subscribe(topics)

    def are_shared() -> bool:
        for member in members:
            member.poll(0.05)
        return len(_owned(members)) == 6 and all(len(member.assignment()) > 1 for member in members)

    wait_until(are_shared, "all partitions are owned")
    shares = [
        {name: {index for each, index in _owned([member]) if each == name} for name in topics} for member in members
    ]
    co_partitioned = all(len(set(map(frozenset, share.values()))) == 1 for share in shares)
    sizes = sorted(sum(map(len, share.values())) for share in shares)
    assert (co_partitioned, sizes) == ((True, [2, 4]) if same_numbers else (False, [3, 3]))
    for member in members:
        member.close()


def test_a_live_group_moves_to_the_consumer_protocol_and_back(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, group: str
) -> None:
    topic = make_topic(4)
    _fill(bootstrap, topic, 4)
    classic = _consumer(bootstrap, group, classic=True, partition_assignment_strategy="range")
    classic.subscribe([topic])
    _poll_until_assigned([classic], [4])
    classic.commit(offsets=[TopicPartition(topic, index, 3) for index in range(4)], asynchronous=False)
    modern = _consumer(bootstrap, group)
    modern.subscribe([topic])
    _poll_until_assigned([classic, modern], [2, 2])
    assert _owned([classic, modern]) == [(topic, index) for index in range(4)]
    assert _describe(admin, group).type is ConsumerGroupType.CONSUMER
    modern.close()
    _poll_until_assigned([classic], [4])
    _wait_for_state(admin, group, ConsumerGroupState.STABLE, ConsumerGroupType.CLASSIC)
    committed = classic.committed([TopicPartition(topic, index) for index in range(4)], timeout=120)
    assert [each.offset for each in committed] == [3] * 4
    classic.close()


def test_kafkas_tools_show_a_consumer_group(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic(2)
    _fill(bootstrap, topic, 2)

    def tool(*arguments: str) -> str:
        return run_tool(GROUPS_TOOL, "--bootstrap-server", bootstrap, *arguments).stdout

    consumer = _consumer(bootstrap, group, client_id="modern-reader")
    consumer.subscribe([topic])
    _poll_until_assigned([consumer], [2])
    consumer.commit(offsets=[TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 4)], asynchronous=False)
    described = tool("--describe", "--group", group)
    row = next(line.split() for line in described.splitlines() if f"{topic} " in line and " 5 " in line)
    assert row[:6] == [group, topic, "0", "5", "15", "10"]
    assert "uniform" in tool("--describe", "--group", group, "--state")
    members = tool("--describe", "--group", group, "--members", "--verbose")
    assert "modern-reader" in members
    consumer.close()
    assert group in tool("--list", "--type", "consumer").split()
    assert "successful" in tool("--delete", "--group", group)


def test_the_console_consumer_reads_in_a_consumer_group(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    _fill(bootstrap, topic)
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning")
    protocol = ("--command-property", "group.protocol=consumer")

    def read(count: int) -> list[str]:
        return run_tool(
            CONSOLE_CONSUMER, *arguments, *protocol, "--max-messages", str(count), "--timeout-ms", "30000"
        ).stdout.split()

    assert read(10) == [str(number) for number in range(10)]
    assert read(COUNT - 10) == [str(number) for number in range(10, COUNT)]
