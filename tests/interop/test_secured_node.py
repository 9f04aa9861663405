"""Foreign clients on the protected listeners of a node: every client over every mechanism, and Kafka's own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType, ScramMechanism, UserScramCredentialDeletion
from kafka.errors import KafkaError

from crabka.config.properties import format_properties
from tests.support.kafka.oracle import run_tool
from tests.support.nodes.secured import MECHANISMS, MODULES, SecuredNode

pytestmark = pytest.mark.interop
USER, PASSWORD = "alice", "canary;w0rd=="
VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with SecuredNode(tmp_path_factory.mktemp("secured"), USER, PASSWORD) as running:
        yield running
        assert PASSWORD not in running.last_output(10**6)


def librdkafka(mechanism: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        "log_level": "0",
    }


def by_confluent(address: str, mechanism: str, password: str) -> list[bytes | None]:
    security, topic = librdkafka(mechanism, password), f"confluent-{mechanism}"
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": address, **security, "error_cb": errors.append})
    for value in VALUES:
        producer.produce(topic, value)
    while producer.flush(0.1):
        if any("Authentication failed" in str(error) for error in errors):
            raise PermissionError
    consumer = Consumer({"bootstrap.servers": address, **security, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found: list[bytes | None] = []
        while len(found) < len(VALUES):
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found
    finally:
        consumer.close()


def by_aiokafka(address: str, mechanism: str, password: str) -> list[bytes | None]:
    options = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }
    topic = f"aiokafka-{mechanism}"

    async def main() -> list[bytes | None]:
        producer = aiokafka.AIOKafkaProducer(**options)
        try:
            await producer.start()
        except aiokafka.errors.KafkaError as error:
            await producer.stop()
            raise PermissionError from error
        for value in VALUES:
            await producer.send_and_wait(topic, value)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(main())


def by_kafka_python(address: str, mechanism: str, password: str) -> list[bytes | None]:
    options = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }
    topic = f"kafka-python-{mechanism}"
    try:
        producer = kafka.KafkaProducer(**options)
    except KafkaError as error:
        raise PermissionError from error
    for value in VALUES:
        producer.send(topic, value)
    producer.flush()
    producer.close()
    consumer = kafka.KafkaConsumer(topic, **options, auto_offset_reset="earliest")
    try:
        return [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()


CLIENTS: list[Callable[[str, str, str], list[bytes | None]]] = [by_confluent, by_aiokafka, by_kafka_python]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_logs_in_writes_and_reads(
    node: SecuredNode, client: Callable[[str, str, str], list[bytes | None]], mechanism: str
) -> None:
    assert client(node.address("SASL_PLAINTEXT"), mechanism, PASSWORD) == VALUES


# kafka-python tries for half a minute.
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", CLIENTS[:2])
def test_client_with_a_wrong_password(
    node: SecuredNode, client: Callable[[str, str, str], list[bytes | None]], mechanism: str
) -> None:
    with pytest.raises(PermissionError):
        client(node.address("SASL_PLAINTEXT"), mechanism, "wr0ng")


def java_properties(path: Path, mechanism: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULES}.{module} required username="{USER}" password="{PASSWORD}";',
    }
    path.write_text(format_properties(properties))
    return str(path)


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafkas_own_client(node: SecuredNode, tmp_path: Path, mechanism: str) -> None:
    config, topic = java_properties(tmp_path / "client.properties", mechanism), f"java-{mechanism}"
    run_tool(
        "org.apache.kafka.tools.TopicCommand",
        *(
            "--bootstrap-server",
            node.address("SASL_PLAINTEXT"),
            "--command-config",
            config,
            "--create",
            "--topic",
            topic,
        ),
    )


@pytest.mark.usefixtures("jvm")
def test_kafkas_own_client_goes_on_after_its_session(node: SecuredNode, tmp_path: Path) -> None:
    config, topic = java_properties(tmp_path / "client.properties", "SCRAM-SHA-256"), "java-session"
    run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *(
            "--bootstrap-server",
            node.address("BRIEF"),
            "--command-config",
            config,
            "--topic",
            topic,
            "--num-records",
            "40",
        ),
        *("--throughput", "15", "--record-size", "10"),
    )
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "s", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        assert len([message for message in consumer.consume(40, 120) if message.error() is None]) == 40
    finally:
        consumer.close()


@pytest.mark.usefixtures("jvm")
def test_kafka_configs_makes_shows_and_removes_users(node: SecuredNode) -> None:
    def configs(*arguments: str) -> str:
        at = ("--bootstrap-server", node.bootstrap_servers, "--entity-type", "users", "--entity-name", "carol")
        return run_tool("kafka.admin.ConfigCommand", *at, *arguments).stdout

    configs("--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=lamb]")
    assert "SCRAM-SHA-512=iterations=8192" in configs("--describe")
    client = AdminClient(
        {
            "bootstrap.servers": node.address("SASL_PLAINTEXT"),
            **librdkafka("SCRAM-SHA-512", "lamb"),
            "sasl.username": "carol",
        }
    )
    assert client.list_topics(timeout=120).brokers
    configs("--alter", "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM" not in configs("--describe")


def test_what_does_not_exist_cannot_be_removed(node: SecuredNode) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    deletion = UserScramCredentialDeletion("stranger", ScramMechanism.SCRAM_SHA_256)
    with pytest.raises(KafkaException, match="Attempt to delete a user credential that does not exist"):
        admin.alter_user_scram_credentials([deletion])["stranger"].result(120)


def test_settings_show_no_password(node: SecuredNode) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    resource = ConfigResource(ResourceType.BROKER, "1")
    shown = admin.describe_configs([resource])[resource].result(120)
    (entry,) = [each for name, each in shown.items() if name == "listener.name.brief.plain.sasl.jaas.config"]
    assert (entry.is_sensitive, entry.value) == (True, None)
    assert PASSWORD not in str({name: (each.value, each.synonyms) for name, each in shown.items()})
