"""Members of all three libraries as real processes: they hang, die and come back; seek and lag inside a group."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import subprocess
import sys
from typing import IO, TYPE_CHECKING, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition

from tests.support.clients.foreign_group_member import MEMBERS
from tests.support.clients.target import target_node
from tests.support.nodes.crabka_up import crabka_command
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")]

COUNT = 12
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that allows short sessions and does not wait for more members."""
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with target_node(tmp_path_factory.mktemp("members"), settings) as running:
        yield running


@pytest.fixture
def group() -> str:
    """A fresh group name."""
    return f"members-{next(_numbers)}"


def fill(bootstrap: str, topic: str, partitions: int, values: range) -> None:
    """Write a record per value to the partitions in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, b"%d" % value, partition=value % partitions)
    assert producer.flush(120) == 0


class MemberProcess:
    """A running member and what it has printed so far."""

    def __init__(self, output: Path, *arguments: str) -> None:
        self._output = output
        self._file: IO[bytes] = output.open("wb")
        command = [sys.executable, "-m", "tests.support.clients.foreign_group_member", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._file, stderr=self._file)

    def lines(self, kind: str) -> list[list[str]]:
        """The words of all complete lines of a kind."""
        text = self._output.read_text()
        return [line.split()[1:] for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith(f"{kind} ")]

    def owned(self) -> set[int]:
        """The partitions that it said last."""
        text = self._output.read_text()
        said = [line.split()[1:] for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("owns")]
        return {int(word) for word in said[-1]} if said else set()

    def values(self) -> list[int]:
        """The values that it has read and committed."""
        return [int(value) for _, _, value in self.lines("read")]

    def signal(self, how: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(how)

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.wait()
        self._file.close()


class Members(NamedTuple):
    """Members by library, all of one group."""

    running: dict[str, MemberProcess]

    def wait_shared(self, partitions: int, *names: str) -> None:
        """Wait until the named members own all partitions, each member some and none twice."""

        def shared() -> bool:
            owned = [self.running[name].owned() for name in names]
            return all(owned) and sorted(itertools.chain(*owned)) == list(range(partitions))

        wait_until(shared, f"{', '.join(names)} own all partitions: {self}")

    def wait_read(self, values: range) -> None:
        """Wait until all values were read, and check that none was read twice."""

        def read() -> list[int]:
            return sorted(value for member in self.running.values() for value in member.values())

        wait_until(lambda: len(read()) >= len(values), f"{values} are read: {self}")
        assert read() == list(values)

    def __str__(self) -> str:
        return ", ".join(f"{name} owns {member.owned()}" for name, member in self.running.items())


@pytest.fixture
def start_member(tmp_path: Path) -> Iterator[Callable[..., MemberProcess]]:
    """Start members; all are killed at the end."""
    numbers = itertools.count()
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> MemberProcess:
            member = MemberProcess(tmp_path / f"member-{next(numbers)}", *arguments)
            stack.callback(member.kill)
            return member

        yield start


def test_members_of_all_libraries_share_a_group_hang_and_die(
    bootstrap: str, make_topic: TopicMaker, group: str, start_member: Callable[..., MemberProcess]
) -> None:
    topic = make_topic(3)
    members = Members({library: start_member(library, bootstrap, group, topic) for library in MEMBERS})
    names = list(MEMBERS)
    members.wait_shared(3, *names)
    written = 0

    def write_and_read() -> None:
        nonlocal written
        fill(bootstrap, topic, 3, range(written, written + COUNT))
        written += COUNT
        members.wait_read(range(written))

    write_and_read()
    for hanging in names:
        # No heartbeats: the session ends, and the others take over where the member has committed.
        others = [name for name in names if name != hanging]
        members.running[hanging].signal(signal.SIGSTOP)
        members.wait_shared(3, *others)
        write_and_read()
        # It finds itself fenced, joins again, and reads on from the commits of the others.
        members.running[hanging].signal(signal.SIGCONT)
        members.wait_shared(3, *names)
        write_and_read()
    while len(names) > 1:
        members.running[names.pop(0)].signal(signal.SIGKILL)
        members.wait_shared(3, *names)
        write_and_read()


@pytest.mark.parametrize("library", ["aiokafka", "kafka-python"])
def test_a_static_member_is_killed_and_restarted_without_a_rebalance(
    bootstrap: str, make_topic: TopicMaker, group: str, library: str, start_member: Callable[..., MemberProcess]
) -> None:
    topic = make_topic(2)
    revoked: list[int] = []
    stays = _consumer(bootstrap, group)
    stays.subscribe([topic], on_revoke=lambda _consumer, partitions: revoked.append(len(partitions)))
    restarts = start_member(library, bootstrap, group, topic, "restarts")
    _poll_until(stays, lambda: len(stays.assignment()) == 1 and len(restarts.owned()) == 1)
    revoked.clear()
    owned = restarts.owned()
    restarts.kill()
    back = start_member(library, bootstrap, group, topic, "restarts")
    _poll_until(stays, lambda: bool(back.owned()))
    fill(bootstrap, topic, 2, range(COUNT))
    _poll_until(stays, lambda: len(back.values()) == COUNT // 2)
    assert (back.owned(), revoked) == (owned, [])
    stays.close()


def _consumer(bootstrap: str, group: str, **settings: str) -> Consumer:
    defaults = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 300,
        "log_level": 0,
    }
    return Consumer({**defaults, **{name.replace("_", "."): value for name, value in settings.items()}})


def _poll_until(consumer: Consumer, condition: Callable[[], bool]) -> None:
    def reached() -> bool:
        consumer.poll(0.05)
        return condition()

    wait_until(reached, "the member is where it should be")


def test_cooperative_members_give_up_only_what_moves(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic(4)
    changes: list[tuple[str, int]] = []
    sticky = {"partition_assignment_strategy": "cooperative-sticky"}
    first, second = _consumer(bootstrap, group, **sticky), _consumer(bootstrap, group, **sticky)
    first.subscribe(
        [topic],
        on_assign=lambda _consumer, partitions: changes.append(("assign", len(partitions))),
        on_revoke=lambda _consumer, partitions: changes.append(("revoke", len(partitions))),
    )
    _poll_until(first, lambda: len(first.assignment()) == 4)
    second.subscribe([topic])
    _poll_until(first, lambda: second.poll(0.05) is None and len(second.assignment()) == 2)
    # The second rebalance, which hands over what was given up, brings the first member nothing new.
    assert [change for change in changes if change[1]] == [("assign", 4), ("revoke", 2)]
    second.close()
    _poll_until(first, lambda: len(first.assignment()) == 4)
    assert [change for change in changes if change[1]][2:] == [("assign", 2)]
    first.close()


def _seek_confluent(bootstrap: str, group: str, topic: str) -> tuple[list[int], int]:
    consumer = _consumer(bootstrap, group)
    consumer.subscribe([topic])
    found: list[int] = []

    def read(count: int) -> None:
        wanted = len(found) + count
        while len(found) < wanted:
            message = consumer.poll(120)
            assert message is not None
            assert message.error() is None
            found.append(int(message.value() or b""))

    read(5)
    consumer.seek(TopicPartition(topic, 0, 2))
    read(3)
    consumer.commit(asynchronous=False)
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=120)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=120)
    consumer.close()
    return found, end - committed.offset


def _seek_aiokafka(bootstrap: str, group: str, topic: str) -> tuple[list[int], int]:
    async def run() -> tuple[list[int], int]:
        partition = AioTopicPartition(topic, 0)
        settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": group}
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **settings) as consumer:
            found = [int((await asyncio.wait_for(consumer.getone(), 30)).value or b"") for _ in range(5)]
            consumer.seek(partition, 2)
            found += [int((await asyncio.wait_for(consumer.getone(), 30)).value or b"") for _ in range(3)]
            await consumer.commit()
            end = (await consumer.end_offsets([partition]))[partition]
            return found, end - (await consumer.committed(partition) or 0)

    return asyncio.run(run())


def _seek_kafka_python(bootstrap: str, group: str, topic: str) -> tuple[list[int], int]:
    partition = PythonTopicPartition(topic, 0)
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_id": group}
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, **settings, consumer_timeout_ms=30_000)
    found = [int(message.value) for message in itertools.islice(consumer, 5)]
    consumer.seek(partition, 2)
    found += [int(message.value) for message in itertools.islice(consumer, 3)]
    consumer.commit()
    lag = consumer.end_offsets([partition])[partition] - (consumer.committed(partition) or 0)
    consumer.close()
    return found, lag


@pytest.mark.parametrize("run", [_seek_confluent, _seek_aiokafka, _seek_kafka_python])
def test_a_member_seeks_and_its_lag_is_that_of_the_command_line(
    bootstrap: str, make_topic: TopicMaker, group: str, run: Callable[[str, str, str], tuple[list[int], int]]
) -> None:
    topic = make_topic()
    fill(bootstrap, topic, 1, range(COUNT))
    found, lag = run(bootstrap, group, topic)
    assert found == [0, 1, 2, 3, 4, 2, 3, 4]
    command = [str(crabka_command()), "groups", "describe", group, "--json", "--bootstrap", bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    (row,) = json.loads(done.stdout)["partitions"]
    assert (row["committed"], row["lag"]) == (5, lag) == (5, COUNT - 5)
