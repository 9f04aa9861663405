"""Clients on listeners with TLS: foreign ones and our own, with and without certificates and log-ins."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Consumer, Producer

from crabka.clients import ClientSecurity, ClusterSettings, ConnectionSettings, SyncAdmin, TlsAuthenticationError
from crabka.clients.errors import ClientNetworkError
from crabka.config.properties import format_properties
from tests.support.kafka.oracle import run_tool
from tests.support.nodes.process import wait_until
from tests.support.nodes.secured import MODULES, SecuredNode
from tests.support.wire.certificates import Authority, KeyPair

pytestmark = pytest.mark.interop
USER, PASSWORD = "alice", "canary;w0rd=="
VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> KeyPair:
    """What a client shows of itself."""
    return authority.issue("client")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredNode]:
    with SecuredNode(tmp_path_factory.mktemp("secured"), USER, PASSWORD, authority) as running:
        yield running
        assert PASSWORD not in running.last_output(10**6)


def librdkafka(listener: str, authority: Authority, own: KeyPair) -> dict[str, str]:
    log_in = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
    shown = {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
    return {
        "security.protocol": "SASL_SSL" if listener == "SASL_SSL" else "SSL",
        "ssl.ca.location": str(authority.certificate),
        **(log_in if listener == "SASL_SSL" else {}),
        **(shown if listener == "MUTUAL" else {}),
    }


@pytest.mark.parametrize("listener", ["SSL", "MUTUAL", "SASL_SSL"])
def test_confluent_kafka(node: SecuredNode, authority: Authority, own: KeyPair, listener: str) -> None:
    settings = {"bootstrap.servers": node.address(listener), **librdkafka(listener, authority, own), "log_level": "0"}
    producer = Producer(settings)
    large = bytes(range(256)) * 2000
    for value in (*VALUES, large):
        producer.produce(f"tls-{listener}", value)
    assert not producer.flush(120)
    consumer = Consumer({**settings, "group.id": listener, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([f"tls-{listener}"])
        found: list[bytes | None] = []
        while len(found) <= len(VALUES):
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
        assert found == [*VALUES, large]
    finally:
        consumer.close()


def test_kafka_python(node: SecuredNode, authority: Authority) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=node.address("SASL_SSL"),
        security_protocol="SASL_SSL",
        ssl_cafile=str(authority.certificate),
        sasl_mechanism="PLAIN",
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
    )
    assert producer.send("tls-python", b"hello").get(120).offset == 0
    producer.close()


@pytest.mark.usefixtures("jvm")
@pytest.mark.parametrize("listener", ["MUTUAL", "SASL_SSL"])
def test_kafkas_own_client(
    node: SecuredNode, authority: Authority, own: KeyPair, tmp_path: Path, listener: str
) -> None:
    entry = f'{MODULES}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    properties = {
        "security.protocol": "SASL_SSL" if listener == "SASL_SSL" else "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }
    if listener == "SASL_SSL":
        properties |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": entry}
    else:
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(authority.keystore(own))}
    config = tmp_path / "client.properties"
    config.write_text(format_properties(properties))
    at = ("--bootstrap-server", node.address(listener), "--command-config", str(config))
    run_tool("org.apache.kafka.tools.TopicCommand", *at, "--create", "--topic", f"java-{listener}")


def ask(address: str, properties: dict[str, str]) -> list[str]:
    connection = ConnectionSettings(security=ClientSecurity.from_properties(properties))
    settings = ClusterSettings(connection, metadata_timeout_ms=2_000)
    with SyncAdmin(address, timeout_ms=2_000, cluster_settings=settings) as admin:
        return list(admin.list_topics())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_client_without_a_certificate_where_one_is_wanted(
    node: SecuredNode, authority: Authority, version: str
) -> None:
    properties = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "ssl.enabled.protocols": version,
    }
    with pytest.raises((TlsAuthenticationError, ClientNetworkError)):
        ask(node.address("MUTUAL"), properties)
    ask(node.address("SSL"), properties)


def test_client_of_a_stranger(node: SecuredNode, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").issue("client")
    shown = {"ssl.certificate.location": str(stranger.certificate), "ssl.key.location": str(stranger.key)}
    with pytest.raises((TlsAuthenticationError, ClientNetworkError)):
        ask(
            node.address("MUTUAL"),
            {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate), **shown},
        )
    wait_until(lambda: "TLS at listener MUTUAL" in node.stderr_text(), "the stranger is in the log")


def test_plain_client_at_a_listener_with_tls(node: SecuredNode) -> None:
    with pytest.raises(ClientNetworkError, match="if its listener expects TLS"):
        ask(node.address("SSL"), {})
    said = "listener SSL expects TLS, and it sent something else"
    wait_until(lambda: said in node.stderr_text(), "the plain client is in the log")
    assert node.stderr_text().count(said) == 1


def test_client_with_tls_at_a_plain_listener(node: SecuredNode, authority: Authority) -> None:
    for address in (node.bootstrap_servers, node.address("SASL_PLAINTEXT")):
        with pytest.raises(ClientNetworkError, match="if its listener is without TLS"):
            ask(address, {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)})
    said = "it speaks TLS, and the listener is without TLS"
    wait_until(lambda: said in node.stderr_text(), "the client with TLS is in the log")


def test_half_open_handshakes_stop_no_good_client(node: SecuredNode, authority: Authority) -> None:
    host, _, port = node.address("SSL").rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(600)]
    try:
        ask(node.address("SSL"), {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)})
    finally:
        for each in silent:
            each.close()


def serial_number(address: str) -> str:
    """Return the serial number of the certificate that a listener shows."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port))) as raw, context.wrap_socket(raw) as connection:
        return str(hash(connection.getpeercert(True)))


def test_new_certificate_is_shown_without_a_restart(node: SecuredNode, authority: Authority) -> None:
    trusting = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    before = serial_number(node.address("SSL"))
    good = node.keystore.read_bytes()
    node.keystore.write_text("nonsense")
    wait_until(lambda: "keeps its certificate" in node.stderr_text(), "the bad file is noticed")
    assert serial_number(node.address("SSL")) == before
    ask(node.address("SSL"), trusting)
    renewed = authority.keystore(authority.issue("renewed", names="IP:127.0.0.1"))
    node.keystore.write_bytes(renewed.read_bytes())
    wait_until(lambda: serial_number(node.address("SSL")) != before, "the new certificate is shown")
    ask(node.address("SSL"), trusting)
    node.keystore.write_bytes(good)
    wait_until(lambda: serial_number(node.address("SSL")) == before, "the first certificate is shown again")
