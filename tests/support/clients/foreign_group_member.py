"""A consumer of one of the three libraries as a process of its own, to be stopped, continued and killed.

`python -m tests.support.clients.foreign_group_member LIBRARY BOOTSTRAP GROUP TOPIC [INSTANCE]` reads the topic as a
member, commits after each record, and prints lines: `owns 0 2` when partitions change, `read PARTITION OFFSET VALUE`
when a record is committed. A commit that is refused is not printed: another member will read the record again.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, NamedTuple

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError as PythonKafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

SESSION_MS = 1500
STATIC_SESSION_MS = 30_000
HEARTBEAT_MS = 300


class MemberArguments(NamedTuple):
    """The command line."""

    library: str
    bootstrap: str
    group: str
    topic: str
    instance: str | None = None

    @property
    def session_ms(self) -> int:
        """A static member lives on while it is restarted."""
        return SESSION_MS if self.instance is None else STATIC_SESSION_MS


class Reporter:
    """Prints what a member owns and has read."""

    def __init__(self) -> None:
        self._owned: list[int] | None = None

    def owns(self, partitions: Iterable[int]) -> None:
        """Tell the partitions if they have changed."""
        owned = sorted(partitions)
        if owned != self._owned:
            self._owned = owned
            print("owns", *owned, flush=True)

    def read(self, partition: int, offset: int, value: bytes | None) -> None:
        """Tell a record that was read and committed."""
        print("read", partition, offset, (value or b"").decode(), flush=True)


def confluent_member(member: MemberArguments, report: Reporter) -> None:
    """Run a librdkafka consumer."""
    settings = {
        "bootstrap.servers": member.bootstrap,
        "group.id": member.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": member.session_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "log_level": 0,
    }
    static = {"group.instance.id": member.instance} if member.instance else {}
    consumer = confluent_kafka.Consumer({**settings, **static})
    consumer.subscribe([member.topic])
    while True:
        message = consumer.poll(0.1)
        report.owns(each.partition for each in consumer.assignment())
        if message is None or message.error() is not None:
            continue
        try:
            consumer.commit(message=message, asynchronous=False)
        except confluent_kafka.KafkaException:
            continue
        report.read(message.partition() or 0, message.offset() or 0, message.value())


def aiokafka_member(member: MemberArguments, report: Reporter) -> None:
    """Run an aiokafka consumer."""

    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            member.topic,
            bootstrap_servers=member.bootstrap,
            group_id=member.group,
            group_instance_id=member.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=member.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        await consumer.start()
        while True:
            polled = await consumer.getmany(timeout_ms=100, max_records=1)
            report.owns(each.partition for each in consumer.assignment())
            for partition, messages in polled.items():
                for message in messages:
                    try:
                        await consumer.commit({partition: message.offset + 1})
                    except AioKafkaError:
                        continue
                    report.read(message.partition, message.offset, message.value)

    asyncio.run(run())


def kafka_python_member(member: MemberArguments, report: Reporter) -> None:
    """Run a kafka-python consumer."""
    consumer = kafka.KafkaConsumer(
        member.topic,
        bootstrap_servers=member.bootstrap,
        group_id=member.group,
        group_instance_id=member.instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=member.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_records=1,
    )
    while True:
        polled = consumer.poll(timeout_ms=100)
        report.owns(each.partition for each in consumer.assignment())
        for messages in polled.values():
            for message in messages:
                try:
                    consumer.commit()
                except PythonKafkaError:
                    continue
                report.read(message.partition, message.offset, message.value)


MEMBERS = {
    "confluent-kafka": confluent_member,
    "aiokafka": aiokafka_member,
    "kafka-python": kafka_python_member,
}

if __name__ == "__main__":
    arguments = MemberArguments(*sys.argv[1:])
    MEMBERS[arguments.library](arguments, Reporter())
