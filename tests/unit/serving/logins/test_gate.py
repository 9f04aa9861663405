"""The gate before a SASL listener, over a real node in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from crabka.ids import ZERO_UUID
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.sasl.listener_rules import PLAIN_MODULE
from tests.support.nodes.sim_node import SimNode, WireClient, build, row

PORT = 9094
SESSION_MS = 60_000
DELAY_MS = 300
FRAME_BYTES = 3_000


@pytest.fixture(scope="module")
def node() -> Iterator[SimNode]:
    listeners = {"CLIENTS": PORT, "BRIEF": PORT + 1}
    entry = f'{PLAIN_MODULE} required user_alice="wonder" user_bob="builder";'
    settings = {
        "listeners": ",".join(
            [
                *("PLAINTEXT://node:9092", "CONTROLLER://127.0.0.1:0"),
                *(f"{name}://node:{port}" for name, port in listeners.items()),
            ]
        ),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:SASL_PLAINTEXT" for name in listeners),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.server.max.receive.size": str(FRAME_BYTES),
        "connection.failed.authentication.delay.ms": str(DELAY_MS),
        "listener.name.brief.connections.max.reauth.ms": str(SESSION_MS),
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": entry for name in listeners},
    }
    with SimNode(settings) as running:
        yield running


def ask(node: SimNode, client: WireClient, api_key: ApiKey, version: int, **fields: Any) -> Any:
    client.post(api_key, version, build(api_key, version, **fields))
    return node.run(client.response(api_key, version))[1]


def handshake(node: SimNode, client: WireClient, mechanism: str = "PLAIN") -> Any:
    return ask(node, client, ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)


def authenticate(node: SimNode, client: WireClient, token: bytes = b"\0alice\0wonder") -> Any:
    return ask(node, client, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)


def log_in(node: SimNode, client: WireClient) -> Any:
    assert handshake(node, client).error_code is ErrorCode.none
    answer = authenticate(node, client)
    assert answer.error_code is ErrorCode.none
    return answer


def groups(node: SimNode, client: WireClient) -> Any:
    return ask(node, client, ApiKey.LIST_GROUPS, 4, states_filter=()).error_code


def wait_closed(node: SimNode, client: WireClient) -> float:
    """Return how many milliseconds later the node has closed the connection."""
    began = node.loop.time()

    async def closed() -> None:
        while not client.closed:
            await asyncio.sleep(0.001)

    node.run(closed())
    return (node.loop.time() - began) * 1000


def info_of(node: SimNode, port: int) -> list[str]:
    """Return the principals of the connections to a port."""
    assert node.node is not None
    server = next(each for each in node.node.listeners._client_servers if each._listener.port == port)  # type: ignore[union-attr]
    return [str(each.info.principal) for each in server.connections]


def test_requests_are_served_after_the_log_in(node: SimNode) -> None:
    client = node.connect(PORT)
    versions = ask(node, client, ApiKey.API_VERSIONS, 3, client_software_name="me", client_software_version="1")
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= {each.api_key for each in versions.api_keys}
    assert log_in(node, client).session_lifetime.total_seconds() == 0
    assert groups(node, client) is ErrorCode.none
    assert info_of(node, PORT)[-1] == "User:alice"
    # The connection is as any other now: without a gate, and with SaslHandshake as an error.
    assert handshake(node, client).error_code is ErrorCode.illegal_sasl_state
    client.transport.close()


def test_large_frames_are_for_those_who_logged_in(node: SimNode) -> None:
    stranger, client = node.connect(PORT), node.connect(PORT)
    log_in(node, client)
    metadata = build(
        ApiKey.METADATA,
        12,
        topics=[row("MetadataRequestTopic", name="t" * 240, topic_id=ZERO_UUID)] * 20,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    client.post(ApiKey.METADATA, 12, metadata)
    assert node.run(client.response(ApiKey.METADATA, 12))
    stranger.post(ApiKey.SASL_AUTHENTICATE, 2, build(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=bytes(FRAME_BYTES)))
    wait_closed(node, stranger)
    client.transport.close()


def test_refused_client_waits_for_its_answer(node: SimNode) -> None:
    client = node.connect(PORT)
    handshake(node, client)
    began = node.loop.time()
    answer = authenticate(node, client, b"\0alice\0wr0ng")
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    assert (node.loop.time() - began) * 1000 >= DELAY_MS
    assert wait_closed(node, client) < DELAY_MS


def test_requests_behind_a_refused_token_are_dropped(node: SimNode) -> None:
    client = node.connect(PORT)
    client.post(ApiKey.SASL_HANDSHAKE, 1, build(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"))
    for token in (b"\0alice\0wr0ng", b"\0alice\0wonder"):
        client.post(ApiKey.SASL_AUTHENTICATE, 2, build(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token))
    client.post(ApiKey.LIST_GROUPS, 4, build(ApiKey.LIST_GROUPS, 4, states_filter=()))
    wait_closed(node, client)
    assert len(client._frames) == 2


def test_request_before_the_log_in_closes_the_connection(node: SimNode) -> None:
    client = node.connect(PORT)
    client.post(ApiKey.LIST_GROUPS, 4, build(ApiKey.LIST_GROUPS, 4, states_filter=()))
    wait_closed(node, client)
    assert client._frames == []


def test_client_that_leaves_while_its_refusal_is_held_back(node: SimNode) -> None:
    client = node.connect(PORT)
    client.post(ApiKey.LIST_GROUPS, 4, build(ApiKey.LIST_GROUPS, 4, states_filter=()))
    node.advance(1)
    client.transport.abort()
    node.advance(2 * DELAY_MS)
    assert groups(node, node.client) is ErrorCode.none


def test_session_ends_at_the_next_request(node: SimNode) -> None:
    client = node.connect(PORT + 1)
    assert log_in(node, client).session_lifetime.total_seconds() * 1000 == SESSION_MS
    node.advance(SESSION_MS - 1000)
    assert groups(node, client) is ErrorCode.none
    node.advance(2000)
    assert not client.closed
    client.post(ApiKey.LIST_GROUPS, 4, build(ApiKey.LIST_GROUPS, 4, states_filter=()))
    wait_closed(node, client)
    assert client._frames == []


def test_session_goes_on_after_another_log_in(node: SimNode) -> None:
    client = node.connect(PORT + 1)
    log_in(node, client)
    for _ in range(3):
        node.advance(SESSION_MS - 1000)
        log_in(node, client)
        assert groups(node, client) is ErrorCode.none


def test_session_may_go_on_even_when_it_is_over(node: SimNode) -> None:
    client = node.connect(PORT + 1)
    log_in(node, client)
    node.advance(2 * SESSION_MS)
    log_in(node, client)
    assert groups(node, client) is ErrorCode.none


def test_log_in_again_at_once_is_refused(node: SimNode) -> None:
    client = node.connect(PORT + 1)
    log_in(node, client)
    log_in(node, client)
    assert handshake(node, client).error_code is ErrorCode.illegal_sasl_state
    answer = authenticate(node, client)
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert groups(node, client) is ErrorCode.none


def test_session_is_of_one_user(node: SimNode) -> None:
    client = node.connect(PORT + 1)
    log_in(node, client)
    handshake(node, client)
    answer = authenticate(node, client, b"\0bob\0builder")
    assert answer.error_code is ErrorCode.sasl_authentication_failed
    wait_closed(node, client)


def test_listener_without_sasl_expects_no_log_in(node: SimNode) -> None:
    answer = node.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())


def test_log_ins_are_counted_and_refusals_logged(node: SimNode, caplog: pytest.LogCaptureFixture) -> None:
    assert node.node is not None
    journal = node.node.listeners.logins
    before = journal.login_count, journal.refusal_count
    client = node.connect(PORT)
    log_in(node, client)
    client.transport.close()
    node.advance(5000)
    client = node.connect(PORT)
    handshake(node, client)
    authenticate(node, client, b"\0alice\0canary")
    assert (journal.login_count, journal.refusal_count) == (before[0] + 1, before[1] + 1)
    (line,) = [each for each in caplog.messages if "refused" in each]
    assert "refused at listener CLIENTS (PLAIN): the user is unknown or the password is wrong" in line
    assert "canary" not in caplog.text
