"""Paths of real clients that only faults reach, each provoked by one line: retry, idempotence, rebalance, fencing.

With each of the three Python clients; what the client did is read from the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import ConsumerRebalanceListener as PythonRebalanceListener
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import ProducerFencedError

from tests.support.clients.foreign_transactions import TRANSACTIONAL
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from crabka.embedded import Broker

pytestmark = [pytest.mark.interop, pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")]

TIMEOUT_S = 120


# --- clients


def send_with_confluent(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    producer.produce(topic, b"once")
    assert producer.flush(TIMEOUT_S) == 0


def send_with_aiokafka(broker: Broker, topic: str) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True) as producer:
            await producer.send_and_wait(topic, b"once")

    asyncio.run(send())


def send_with_kafka_python(broker: Broker, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True)
    producer.send(topic, b"once").get(TIMEOUT_S)
    producer.close()


SENDERS = [send_with_confluent, send_with_aiokafka, send_with_kafka_python]


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


@pytest.mark.parametrize("send", SENDERS)
def test_retry(crabka_broker: Broker, crabka_topic: str, send: Callable[[Broker, str], None]) -> None:
    crabka_broker.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, topic=crabka_topic)
    send(crabka_broker, crabka_topic)
    assert [entry.errors for entry in crabka_broker.requests("Produce")] == [("NOT_LEADER_OR_FOLLOWER",)] * 2 + [()]


@pytest.mark.parametrize("send", SENDERS)
def test_idempotence(crabka_broker: Broker, crabka_topic: str, send: Callable[[Broker, str], None]) -> None:
    crabka_broker.drop_connection(after="Produce")
    send(crabka_broker, crabka_topic)
    assert len(crabka_broker.requests("Produce")) == 2
    assert values(crabka_broker, crabka_topic) == [b"once"]


# --- groups


def rejoin_with_confluent(broker: Broker, topic: str, provoke: Callable[[], object]) -> list[str]:
    seen: list[str] = []
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "heartbeat.interval.ms": 50}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.subscribe(
        [topic], on_assign=lambda *_: seen.append("assigned"), on_revoke=lambda *_: seen.append("revoked")
    )
    wait_until(lambda: consumer.poll(0.05) or seen, "it has partitions")
    provoke()
    wait_until(lambda: consumer.poll(0.05) or len(seen) > 2, "it has joined again")
    consumer.close()
    return seen[:3]


def rejoin_with_aiokafka(broker: Broker, topic: str, provoke: Callable[[], object]) -> list[str]:
    seen: list[str] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # the library has no types
        def on_partitions_assigned(self, assigned: object) -> None:
            seen.append("assigned")

        def on_partitions_revoked(self, revoked: set[object]) -> None:
            if revoked:
                seen.append("revoked")

    async def consume() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id=topic, heartbeat_interval_ms=50
        )
        consumer.subscribe([topic], listener=Listener())
        async with consumer:
            await asyncio.to_thread(wait_until, lambda: seen, "it has partitions")
            provoke()
            await asyncio.to_thread(wait_until, lambda: len(seen) > 2, "it has joined again")

    asyncio.run(consume())
    return seen[:3]


def rejoin_with_kafka_python(broker: Broker, topic: str, provoke: Callable[[], object]) -> list[str]:
    seen: list[str] = []

    class Listener(PythonRebalanceListener):  # type: ignore[misc] # the library has no types
        def on_partitions_assigned(self, assigned: object) -> None:
            seen.append("assigned")

        def on_partitions_revoked(self, revoked: list[object]) -> None:
            if revoked:
                seen.append("revoked")

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=topic, heartbeat_interval_ms=50)
    # It divides only topics that it knows: without this the first assignment may be empty.
    wait_until(lambda: consumer.partitions_for_topic(topic), "it knows the topic")
    consumer.subscribe([topic], listener=Listener())
    wait_until(lambda: consumer.poll(50) or seen, "it has partitions")
    provoke()
    wait_until(lambda: consumer.poll(50) or len(seen) > 2, "it has joined again")
    consumer.close()
    return seen[:3]


@pytest.mark.parametrize(
    ("rejoin", "error"),
    [
        (rejoin_with_confluent, "REBALANCE_IN_PROGRESS"),
        (rejoin_with_confluent, "ILLEGAL_GENERATION"),
        # After any other error it joins as a new member, and waits until the session of the old one ends.
        (rejoin_with_aiokafka, "REBALANCE_IN_PROGRESS"),
        (rejoin_with_kafka_python, "REBALANCE_IN_PROGRESS"),
        (rejoin_with_kafka_python, "ILLEGAL_GENERATION"),
    ],
)
def test_rebalance(crabka_broker: Broker, crabka_topic: str, rejoin: Callable[..., list[str]], error: str) -> None:
    seen = rejoin(crabka_broker, crabka_topic, lambda: crabka_broker.fail_next("Heartbeat", error=error))
    assert seen == ["assigned", "revoked", "assigned"]


# --- transactions

FENCED = {
    "confluent-kafka": ("PRODUCER_FENCED", KafkaException),
    # Its requests are older than that error.
    "aiokafka": ("INVALID_PRODUCER_EPOCH", ProducerFenced),
    "kafka-python": ("PRODUCER_FENCED", ProducerFencedError),
}


@pytest.mark.parametrize("library", list(TRANSACTIONAL))
def test_fencing(crabka_broker: Broker, crabka_topic: str, library: str) -> None:
    error, raised = FENCED[library]
    producer = TRANSACTIONAL[library](crabka_broker.bootstrap_servers, crabka_topic)
    producer.begin()
    producer.send(crabka_topic, 0, b"never seen")
    crabka_broker.fail_next("EndTxn", error=error)
    with pytest.raises(raised) as fenced:
        producer.commit()
    producer.close()
    if isinstance(fenced.value, KafkaException):
        assert fenced.value.args[0].code() == KafkaError._FENCED
    assert crabka_broker.records(crabka_topic, read_committed=True) == []
