"""The clients on protected listeners of Apache Kafka: every protocol and mechanism, and one clear error per mistake."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crabka.cli.main import execute
from crabka.clients import (
    AuthenticationError,
    ClientNetworkError,
    ClientSecurity,
    Cluster,
    ClusterSettings,
    Connection,
    ConnectionSettings,
    NewTopic,
    SaslAuthenticationError,
    SessionEndedError,
    SyncAdmin,
    SyncFetcher,
    SyncProducer,
    TlsAuthenticationError,
)
from crabka.config.properties import format_properties
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes, read_response
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime import AsyncioNetwork, real_runtime
from crabka.runtime import run as run_on_loop
from tests.support.async_tests import run_with
from tests.support.clients.login_talk import CLOSED, authenticate, framed, handshake, request, talk, versions
from tests.support.clients.raw_request import ask
from tests.support.kafka.oracle import require_jvm
from tests.support.kafka.secured import MECHANISMS, PASSWORD, SESSION_MS, USER, SecuredKafka
from tests.support.nodes.process import wait_until
from tests.support.nodes.secured import SecuredNode
from tests.support.nodes.sim_node import Row, row
from tests.support.wire.certificates import Authority, KeyPair

pytestmark = [pytest.mark.interop, pytest.mark.slow]
_numbers = itertools.count(1)
# How many sessions a test may lose because the machine is busy.
MOST_CONNECTIONS = 30


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> KeyPair:
    """What a client shows of itself."""
    return authority.issue("client")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredKafka]:
    require_jvm()
    with SecuredKafka(tmp_path_factory.mktemp("kafka"), authority) as running:
        yield running


def sasl(mechanism: str, password: str | None = None) -> dict[str, str]:
    credentials = {"sasl.username": USER, "sasl.password": PASSWORD if password is None else password}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **credentials}


def tls(authority: Authority, protocol: str = "SSL") -> dict[str, str]:
    return {"security.protocol": protocol, "ssl.ca.location": str(authority.certificate)}


def settings_of(properties: dict[str, str]) -> ClusterSettings:
    connection = ConnectionSettings(security=ClientSecurity.from_properties(properties))
    return ClusterSettings(connection, metadata_timeout_ms=5_000)


def use_everything(address: str, properties: dict[str, str]) -> None:
    """Create a topic, write to it, read from it, and ask for it."""
    settings, topic = settings_of(properties), f"secured-{next(_numbers)}"
    with SyncAdmin(address, cluster_settings=settings) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        # Kafka's broker may learn of a topic a little after the controller has created it.
        wait_until(lambda: topic in admin.list_topics(), "the topic is listed")
    values = [b"%d" % number for number in range(100)]
    with SyncProducer(address, cluster_settings=settings) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush()
    with SyncFetcher(address, cluster_settings=settings) as fetcher:
        fetcher.assign({TopicPartition(topic, 0): 0})
        found: list[bytes | None] = []
        while len(found) < len(values):
            found += [record.value for record in fetcher.poll(5_000)]
    assert found == values


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sasl_without_tls(kafka: SecuredKafka, mechanism: str) -> None:
    use_everything(kafka.address("SASL_PLAINTEXT"), sasl(mechanism))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sasl_with_tls(kafka: SecuredKafka, authority: Authority, mechanism: str) -> None:
    use_everything(kafka.address("SASL_SSL"), {**sasl(mechanism), **tls(authority, "SASL_SSL")})


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_tls_without_sasl(kafka: SecuredKafka, authority: Authority, version: str) -> None:
    use_everything(kafka.address("SSL"), {**tls(authority), "ssl.enabled.protocols": version})


def test_tls_with_certificates_of_both_sides(kafka: SecuredKafka, authority: Authority, own: KeyPair) -> None:
    store = authority.keystore(authority.encrypted(own, "s3cret"))
    shown = {"ssl.keystore.location": str(store), "ssl.keystore.type": "PEM", "ssl.key.password": "s3cret"}
    use_everything(kafka.address("MUTUAL"), {**tls(authority), **shown})


def test_same_properties_serve_kafkas_own_clients_and_ours(kafka: SecuredKafka, authority: Authority) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
    }
    use_everything(kafka.address("SASL_SSL"), properties)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password(kafka: SecuredKafka, mechanism: str) -> None:
    properties = sasl(mechanism, "wr0ng")
    with SyncAdmin(kafka.address("SASL_PLAINTEXT"), cluster_settings=settings_of(properties)) as admin:
        with pytest.raises(SaslAuthenticationError, match=f"of '{USER}' by {mechanism} failed at .*nvalid") as caught:
            admin.list_topics()
        assert "wr0ng" not in str(caught.value)


async def connect(address: str, properties: dict[str, str]) -> Connection:
    host, _, port = address.rpartition(":")
    settings = settings_of(properties).connection
    return await Connection.open(AsyncioNetwork(), host, int(port), settings)


def failure(address: str, properties: dict[str, str]) -> Exception:
    """Return what a connection that must not come about raises."""

    async def main() -> None:
        connection = await connect(address, properties)
        connection.close()
        await connection.wait_closed()

    with pytest.raises((AuthenticationError, ClientNetworkError)) as caught:
        run_on_loop(main())
    return caught.value


def test_user_to_a_listener_without_sasl(kafka: SecuredKafka) -> None:
    reported = failure(kafka.bootstrap_servers, sasl("PLAIN"))
    assert isinstance(reported, SaslAuthenticationError)
    assert "expects no SASL" in str(reported)


def test_no_user_at_a_listener_with_sasl(kafka: SecuredKafka) -> None:
    reported = r"expects SASL, set security.protocol to SASL_PLAINTEXT"
    with (
        SyncAdmin(kafka.address("SASL_PLAINTEXT"), timeout_ms=1_000) as admin,
        pytest.raises(ClientNetworkError, match=reported),
    ):
        admin.list_topics()


def test_tls_to_a_listener_without(kafka: SecuredKafka, authority: Authority) -> None:
    reported = failure(kafka.bootstrap_servers, tls(authority))
    assert isinstance(reported, ClientNetworkError)
    assert "if its listener is without TLS, set security.protocol to PLAINTEXT" in str(reported)


def test_plaintext_to_a_listener_with_tls(kafka: SecuredKafka) -> None:
    reported = failure(kafka.address("SSL"), {})
    assert isinstance(reported, TlsAuthenticationError)
    assert "answers with TLS: set security.protocol to SSL or SASL_SSL" in str(reported)


def test_broker_of_an_unknown_authority(kafka: SecuredKafka, tmp_path: Path) -> None:
    reported = failure(kafka.address("SSL"), tls(Authority(tmp_path, "stranger")))
    assert isinstance(reported, TlsAuthenticationError)
    assert "not signed by an authority in ssl.ca.location" in str(reported)


def test_broker_whose_certificate_is_for_another_name(kafka: SecuredKafka, authority: Authority) -> None:
    address = f"localhost:{kafka.ports['SSL']}"
    reported = failure(address, tls(authority))
    assert isinstance(reported, TlsAuthenticationError)
    assert "for another host" in str(reported)
    use_everything(address, {**tls(authority), "ssl.endpoint.identification.algorithm": ""})


def test_broker_whose_certificate_is_over(kafka: SecuredKafka, authority: Authority) -> None:
    reported = failure(kafka.address("STALE"), tls(authority))
    assert isinstance(reported, TlsAuthenticationError)
    assert "no longer valid" in str(reported)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_client_without_a_certificate(kafka: SecuredKafka, authority: Authority, version: str) -> None:
    reported = failure(kafka.address("MUTUAL"), {**tls(authority), "ssl.enabled.protocols": version})
    assert isinstance(reported, TlsAuthenticationError)
    assert "set ssl.keystore.location" in str(reported)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_client_of_an_unknown_authority(
    kafka: SecuredKafka, authority: Authority, tmp_path: Path, version: str
) -> None:
    stranger = Authority(tmp_path, "stranger").issue("client")
    shown = {"ssl.certificate.location": str(stranger.certificate), "ssl.key.location": str(stranger.key)}
    reported = failure(kafka.address("MUTUAL"), {**tls(authority), **shown, "ssl.enabled.protocols": version})
    assert isinstance(reported, TlsAuthenticationError)
    assert "set ssl.keystore.location to one that it trusts" in str(reported)


def everything(types: MessageTypes) -> Any:
    return types.message(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


async def ask_on_and_on(connection: Connection) -> None:
    while True:
        await connection.request(ApiKey.METADATA, everything)


def on_a_brief_session(kafka: SecuredKafka, mechanism: str, use: Callable[[Connection], Awaitable[None]]) -> None:
    async def main() -> None:
        connection = await connect(kafka.address("BRIEF"), sasl(mechanism))
        try:
            await use(connection)
        finally:
            connection.close()
            await connection.wait_closed()

    run_on_loop(main())


async def renewals_of(connection: Connection, wanted: int) -> int:
    """Use a connection until it was authenticated so often again; return how often, fewer if the machine was late."""
    dues = [connection._renew_at]
    with contextlib.suppress(SessionEndedError):
        while len(dues) <= wanted:
            await asyncio.gather(*(connection.request(ApiKey.METADATA, everything) for _ in range(5)))
            if connection._renew_at != dues[-1]:
                dues.append(connection._renew_at)
        assert connection.is_open
    assert None not in dues
    return len(dues) - 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_session_goes_on_by_authenticating_again(kafka: SecuredKafka, mechanism: str) -> None:
    renewals: list[int] = []

    async def use(connection: Connection) -> None:
        renewals.append(await renewals_of(connection, 3))

    # A busy machine may be late for one session, but not for all of them.
    while sum(renewals) < 3:
        assert len(renewals) < MOST_CONNECTIONS, "no connection was authenticated again"
        on_a_brief_session(kafka, mechanism, use)


@run_with(lambda test, kafka: on_a_brief_session(kafka, "PLAIN", test))
async def test_an_unrenewed_session_is_ended_by_the_broker(connection: Connection, /) -> None:
    connection._renew_at = None
    loop = asyncio.get_running_loop()
    opened = loop.time()
    with pytest.raises(ClientNetworkError, match="closed the connection"):
        await ask_on_and_on(connection)
    assert loop.time() - opened > SESSION_MS / 1000 / 2


@run_with(lambda test: run_on_loop(test()))
async def test_cluster_outlives_its_sessions(kafka: SecuredKafka) -> None:
    runtime = real_runtime()
    try:
        async with Cluster(runtime, kafka.address("BRIEF"), settings_of(sasl("SCRAM-SHA-256"))) as cluster:
            due = (await cluster.any_connection())._renew_at
            for _ in range(3):
                # Renewed or, if this machine was late, followed by another session.
                while (await cluster.any_connection())._renew_at == due:
                    await cluster.refresh(None)
                due = (await cluster.any_connection())._renew_at
    finally:
        runtime.threads.close()


def test_commands_take_client_properties(
    kafka: SecuredKafka, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(format_properties({**sasl("SCRAM-SHA-256"), **tls(authority, "SASL_SSL")}))
    options = ["--bootstrap", kafka.address("SASL_SSL"), "--command-config", str(config)]
    assert execute(["topics", "create", "by-command", "-p", "1", "-r", "1", *options]) == 0
    assert execute(["records", "produce", "by-command", "hello", *options]) == 0
    capsys.readouterr()
    assert execute(["records", "consume", "by-command", "--from", "earliest", "--values", *options]) == 0
    assert capsys.readouterr().out == "hello\n"
    config.write_text(format_properties({**sasl("SCRAM-SHA-256", "wr0ng"), **tls(authority, "SASL_SSL")}))
    assert execute(["topics", "list", *options]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"crabka: SASL authentication of '{USER}' by SCRAM-SHA-256 failed")
    assert "wr0ng" not in said
    assert said.count("\n") == 1


# --- what a node of ours answers to log-ins, beside Apache Kafka


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    with SecuredNode(tmp_path_factory.mktemp("ours"), USER, PASSWORD) as running:
        yield running


GOOD, BAD = f"\0{USER}\0{PASSWORD}".encode(), f"\0{USER}\0wr0ng".encode()
METADATA = request(
    ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
)
# Frames by what they try; the answer to the last one is compared, and whether the connection then goes on.
LOGINS: dict[str, list[bytes]] = {
    **{f"good, v{version}": [handshake(), authenticate(GOOD, version)] for version in range(3)},
    **{f"bad, v{version}": [handshake(), authenticate(BAD, version)] for version in range(3)},
    "good, raw": [handshake(version=0), framed(GOOD)],
    "bad, raw": [handshake(version=0), framed(BAD)],
    "after ApiVersions": [versions(), handshake(), authenticate(GOOD)],
    "ApiVersions of the future": [versions(99), versions(), handshake(), authenticate(GOOD)],
    "ApiVersions twice": [versions(), versions()],
    "unknown mechanism": [handshake("SCRAM-SHA-1")],
    "unknown mechanism, v0": [handshake("", 0)],
    "other identity": [handshake(), authenticate(b"bob" + GOOD)],
    "own identity": [handshake(), authenticate(USER.encode() + GOOD)],
    "more fields": [handshake(), authenticate(GOOD + b"\0and more")],
    "fewer fields": [handshake(), authenticate(USER.encode())],
    "no user": [handshake(), authenticate(b"\0\0" + PASSWORD.encode())],
    "no password": [handshake(), authenticate(f"\0{USER}\0".encode())],
    "nothing": [handshake(), authenticate(b"")],
    "unknown user": [handshake(), authenticate(b"\0unknown-user\0nothing")],
    "not UTF-8": [handshake(), authenticate(b"\0\xff\0\xff")],
    "malformed SCRAM": [handshake("SCRAM-SHA-512"), authenticate(b"n,,n=alice")],
    "SCRAM with channel binding": [handshake("SCRAM-SHA-512"), authenticate(b"y,,n=alice,r=abc")],
    "SCRAM, malformed end": [handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=abc"), authenticate(b"c=biws")],
    "SCRAM, another nonce": [
        *(handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=abc"), authenticate(b"c=biws,r=abc,p=AAAA"))
    ],
    "token without handshake": [authenticate(GOOD)],
    "request without log-in": [METADATA],
    "request after ApiVersions": [versions(), METADATA],
    "garbage": [framed(b"\x60\x82\x02\x1a\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")],
    "empty frame": [framed(b"")],
    "handshake of the future": [handshake()[:6] + b"\0\x09" + handshake()[8:]],
    "too large": [(600_000).to_bytes(4) + b"\0\x12"],
    "handshake twice": [handshake(), handshake()],
    "log-in after the log-in": [handshake(), authenticate(GOOD), handshake()],
    "token after the log-in": [handshake(), authenticate(GOOD), authenticate(GOOD)],
}
# Kafka answers with an error of the request before it closes; any request but a token closes the connection here.
CLOSED_HERE = ("handshake twice",)


def said(address: str, frames: list[bytes]) -> list[bytes | str | tuple[ErrorCode, list[str]]]:
    """Return the answers to frames; Kafka names its mechanisms in no order."""
    answers: list[bytes | str | tuple[ErrorCode, list[str]]] = []
    for frame, answer in zip(frames, talk(address, frames), strict=False):
        if isinstance(answer, bytes) and frame[4:6] == ApiKey.SASL_HANDSHAKE.to_bytes(2):
            body = read_response(ApiKey.SASL_HANDSHAKE, int.from_bytes(frame[6:8]), answer, 8)
            answers.append((body.error_code, sorted(body.mechanisms)))
        else:
            answers.append(answer)
    return answers


@pytest.mark.parametrize("name", LOGINS)
def test_log_in_is_answered_as_by_kafka(kafka: SecuredKafka, ours: SecuredNode, name: str) -> None:
    frames = LOGINS[name]
    # What is sent after the last frame shows whether the connection is closed, or open to requests.
    theirs, found = (said(broker.address("SASL_PLAINTEXT"), [*frames, METADATA]) for broker in (kafka, ours))
    if name in CLOSED_HERE:
        assert (len(found), found[-1]) == (len(frames), CLOSED)
        return
    assert len(theirs) == len(found)
    if len(found) >= len(frames):
        assert theirs[len(frames) - 1] == found[len(frames) - 1] or frames[-1][4:6] == b"\0\x12"
    assert (theirs[-1] == CLOSED) == (found[-1] == CLOSED)


@pytest.mark.parametrize("frame", [handshake(), handshake(version=0), authenticate(GOOD), authenticate(GOOD, 0)])
def test_log_in_at_a_listener_without_sasl_is_answered_as_by_kafka(
    kafka: SecuredKafka, ours: SecuredNode, frame: bytes
) -> None:
    theirs, found = (said(broker.bootstrap_servers, [frame]) for broker in (kafka, ours))
    assert theirs == found


@pytest.mark.parametrize("version", [0, 1, 2])
def test_session_is_announced_as_by_kafka(kafka: SecuredKafka, ours: SecuredNode, version: int) -> None:
    frames = [handshake(), authenticate(GOOD, version), handshake(), authenticate(b"\0unknown-user\0nothing", version)]
    theirs, found = (said(broker.address("BRIEF"), frames) for broker in (kafka, ours))
    assert theirs == found
    assert len(found) == len(frames)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_session_goes_on_with_its_mechanism_as_in_kafka(kafka: SecuredKafka, ours: SecuredNode, mechanism: str) -> None:
    frames = [handshake(), authenticate(GOOD), handshake(mechanism), authenticate(GOOD), METADATA]
    theirs, found = (said(broker.address("BRIEF"), frames) for broker in (kafka, ours))
    assert theirs[:4] == found[:4]
    assert (theirs[-1] == CLOSED) == (found[-1] == CLOSED) == (mechanism != "PLAIN")


@pytest.mark.parametrize("broker", ["kafka", "ours"])
def test_commands_about_users_and_quotas_work_with_kafka_and_with_ours(
    broker: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node: SecuredKafka | SecuredNode = request.getfixturevalue(broker)
    password = tmp_path / "password"
    password.write_text("canary-4711\n")
    config = tmp_path / "client.properties"
    config.write_text(format_properties({**sasl("SCRAM-SHA-512", "canary-4711"), "sasl.username": "dave"}))

    def run(*words: str) -> Any:
        code = execute([*words, "--bootstrap", node.bootstrap_servers, "--json"])
        written = capsys.readouterr()
        assert code == 0, written.err
        return json.loads(written.out)

    def logs_in() -> bool:
        options = ["--bootstrap", node.address("SASL_PLAINTEXT"), "--command-config", str(config)]
        code = execute(["topics", "list", *options])
        assert "canary" not in "".join(capsys.readouterr())
        return code == 0

    added = run("users", "add", "dave", "--password-file", str(password), "--iterations", "8192")
    assert wait_until(lambda: added[0] in run("users", "list"), "the user is listed")
    assert wait_until(logs_in, "the user logs in")
    run("users", "delete", "dave", "--execute")
    assert wait_until(lambda: not logs_in(), "the user is gone")

    app = ("--user-default", "--client-id", "app")
    made = [
        *run("quotas", "set", "producer_byte_rate=10MB", "request_percentage=50", "--user", "dave"),
        *run("quotas", "set", "controller_mutation_rate=0.5", *app),
        *run("quotas", "set", "connection_creation_rate=500", "--ip", "10.0.0.7"),
    ]
    listed = wait_until(lambda: [rows for rows in [run("quotas", "list")] if len(rows) == 3], "they are listed")[0]
    assert sorted(listed, key=str) == sorted(made, key=str)
    assert run("quotas", "list", "--client-id", "app") == [made[1]]
    for who in (("--user", "dave"), app, ("--ip", "10.0.0.7")):
        run("quotas", "remove", *who, "--execute")
    assert wait_until(lambda: not run("quotas", "list"), "the quotas are gone")


def test_changes_of_credentials_are_answered_as_by_kafka(kafka: SecuredKafka, ours: SecuredNode) -> None:
    def deletion(user: str, mechanism: int) -> Row:
        return row("ScramCredentialDeletion", name=user, mechanism=mechanism)

    def upsertion(user: str, mechanism: int, iterations: int) -> Row:
        secret = {"salt": b"salt", "salted_password": b"salted"}
        return row("ScramCredentialUpsertion", name=user, mechanism=mechanism, iterations=iterations, **secret)

    wanted = {
        "deletions": [deletion("unknown-user", 1), deletion("", 1), deletion("strange", 3), deletion(USER, 2)],
        "upsertions": [
            *(upsertion("few", 1, 4095), upsertion("many", 2, 16_385), upsertion("unknown", 0, 4096)),
            *(upsertion("new", 1, 4096), upsertion("twice", 1, 4096), upsertion("twice", 2, 4096)),
            *(upsertion("thrice", 1, 4096), upsertion("thrice", 2, 4096), upsertion("thrice", 1, 4096)),
            *(upsertion(USER, 2, 4096), upsertion("", 2, 4096)),
        ],
    }
    answers = [
        ask(int(broker.bootstrap_servers.rpartition(":")[2]), ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, **wanted)
        for broker in (kafka, ours)
    ]
    theirs, found = (
        {result.user: (result.error_code, result.error_message) for result in answer.results} for answer in answers
    )
    assert theirs == found
    asked = [row("UserName", name=name) for name in ("new", "twice", "unknown-user")]
    described = [
        ask(int(broker.bootstrap_servers.rpartition(":")[2]), ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=asked)
        for broker in (kafka, ours)
    ]
    assert described[0].results == described[1].results
