"""Connections: versions, pipelining, order, timeouts, and peers that misbehave."""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crabka.clients.cluster.connection import Connection, ConnectionSettings
from crabka.clients.errors import (
    ClientNetworkError,
    RequestTimeoutError,
    SaslAuthenticationError,
    SessionEndedError,
    TlsAuthenticationError,
    VersionMismatchError,
)
from crabka.clients.security.sasl import SaslClient, SaslCredentials
from crabka.clients.security.security import ClientSecurity
from crabka.errors import OperationError, WireError
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.security.secret import Secret
from tests.support.async_tests import real_time, run_with
from tests.support.clients.scram_server import SaslScript
from tests.support.clients.scripted_broker import NO_ANSWER, DisconnectError, ReceivedRequest, ScriptedBroker
from tests.support.clients.simulation import ClientSimulation, simulate

SETTINGS = ConnectionSettings(client_id="tester", request_timeout_ms=1_000, connect_timeout_ms=1_000)
PASSWORD = "pencil"
Test = Callable[[ScriptedBroker, Callable[..., Awaitable[Connection]]], Awaitable[None]]


def with_broker(test: Test) -> None:
    """Run a test with a scripted broker and a function that connects to it."""

    async def main(simulation: ClientSimulation) -> None:
        broker = ScriptedBroker()
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda request: request.types.message(
            throttle_time=0, error_code=ErrorCode.none, producer_id=len(broker.requests), producer_epoch=0
        )
        await broker.listen(simulation.network.host("server"), "server", 9)

        async def connect(settings: ConnectionSettings = SETTINGS) -> Connection:
            return await Connection.open(simulation.runtime.network, "server", 9, settings)

        try:
            await test(broker, connect)
        finally:
            broker.close()

    simulate(main)


def init_producer_id(types: MessageTypes) -> Any:
    return types.message(transactional_id=None, transaction_timeout=0)


@run_with(with_broker)
async def test_request_uses_the_highest_version_of_both_sides(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    broker.versions[ApiKey.INIT_PRODUCER_ID] = (0, 3)
    connection = await connect()
    response = await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert response.producer_id > 0
    (request,) = broker.asked(ApiKey.INIT_PRODUCER_ID)
    assert (request.version, request.client_id) == (3, "tester")
    assert connection.version_of(ApiKey.INIT_PRODUCER_ID, 2) == 2
    connection.close()


@run_with(with_broker)
async def test_api_without_a_shared_version_is_refused_before_it_is_sent(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    broker.versions[ApiKey.INIT_PRODUCER_ID] = (90, 99)
    del broker.versions[ApiKey.FETCH]
    connection = await connect()
    for api_key in (ApiKey.INIT_PRODUCER_ID, ApiKey.FETCH):
        assert not connection.supports(api_key)
        with pytest.raises(VersionMismatchError):
            await connection.request(api_key, init_producer_id)
    assert not broker.asked(ApiKey.INIT_PRODUCER_ID)
    connection.close()


@pytest.mark.parametrize("newest", [0, 2, 3])
@run_with(with_broker)
async def test_older_broker_is_asked_again_in_its_own_version(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /, newest: int
) -> None:
    broker.versions[ApiKey.API_VERSIONS] = (0, newest)
    connection = await connect()
    assert [request.version for request in broker.asked(ApiKey.API_VERSIONS)] == [newest]
    assert connection.supports(ApiKey.METADATA)
    connection.close()


@run_with(with_broker)
async def test_pipelined_requests_get_their_own_answers(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    connection = await connect()
    requests = (connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id) for _ in range(20))
    answers = [response.producer_id for response in await asyncio.gather(*requests)]
    assert answers == sorted(set(answers))
    assert broker.connection_count == 1
    connection.close()


@run_with(with_broker)
async def test_requests_beyond_the_limit_wait_for_a_slot(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    broker.answers[ApiKey.METADATA] = lambda _: NO_ANSWER
    connection = await connect(ConnectionSettings(max_in_flight=2, request_timeout_ms=1_000))

    def build(types: MessageTypes) -> Any:
        return types.message(topics=None, include_topic_authorized_operations=False)

    waiting = [asyncio.ensure_future(connection.request(ApiKey.METADATA, build)) for _ in range(5)]
    await asyncio.sleep(0.5)
    assert len(broker.asked(ApiKey.METADATA)) == connection.in_flight_count == 2
    connection.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, ClientNetworkError) for result in results)


@run_with(with_broker)
async def test_silent_broker_times_out_and_closes_the_connection(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: NO_ANSWER
    connection = await connect()
    with pytest.raises(RequestTimeoutError, match="INIT_PRODUCER_ID"):
        await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert not connection.is_open
    with pytest.raises(ClientNetworkError):
        await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    await connection.wait_closed()


@run_with(with_broker)
async def test_cut_connection_fails_all_requests_in_flight(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    def cut(_: ReceivedRequest) -> Any:
        raise DisconnectError

    broker.answers[ApiKey.INIT_PRODUCER_ID] = cut
    connection = await connect()
    requests = (connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id) for _ in range(3))
    results = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(result) for result in results] == [ClientNetworkError] * 3


@run_with(with_broker)
async def test_cancelled_request_does_not_disturb_the_next(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    connection = await connect()
    first = asyncio.ensure_future(connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id))
    await asyncio.sleep(0)
    first.cancel()
    second = await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert second.producer_id == len(broker.requests)
    assert connection.is_open
    connection.close()


@pytest.mark.parametrize(
    "frame",
    [struct.pack(">i", 77), b"\x00", struct.pack(">i", 1) + b"\x05\x00\x00", struct.pack(">i", 1) + b"\x00"],
    ids=["wrong-correlation", "too-short", "unknown-header-tags", "cut-body"],
)
@run_with(with_broker)
async def test_malformed_answer_closes_the_connection(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /, frame: bytes
) -> None:
    def answer(_: ReceivedRequest) -> Any:
        next(iter(broker.connections)).send_frame(frame)
        return NO_ANSWER

    broker.answers[ApiKey.INIT_PRODUCER_ID] = answer
    connection = await connect()
    with pytest.raises(WireError):
        await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert not connection.is_open


@run_with(with_broker)
async def test_unasked_answer_closes_the_connection(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    connection = await connect()
    next(iter(broker.connections)).send_frame(struct.pack(">i", 5))
    await connection.wait_closed()
    assert not connection.is_open


def as_user(password: str = PASSWORD) -> ConnectionSettings:
    credentials = SaslCredentials("SCRAM-SHA-256", "alice", Secret(password))
    sasl = SaslClient(credentials, random.Random(1))
    return ConnectionSettings(request_timeout_ms=1_000, security=ClientSecurity(sasl=sasl))


@run_with(with_broker)
async def test_user_who_is_not_accepted_gets_no_connection(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    SaslScript("pencil").install(broker)
    with pytest.raises(SaslAuthenticationError, match="'alice'"):
        await connect(as_user("crayon"))
    while broker.connections:
        await asyncio.sleep(0.1)
    assert broker.connection_count == 1


@run_with(with_broker)
async def test_session_is_renewed_before_it_ends_and_only_when_it_is_used(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    script = SaslScript("pencil", lifetime_ms=10_000)
    script.install(broker)
    connection = await connect(as_user())
    for _ in range(100):
        await asyncio.sleep(0.4)
        await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    # 40 s in sessions of which 85 to 95 % are used.
    assert len(script.sessions) == 5
    await asyncio.sleep(100)
    assert len(script.sessions) == 5
    await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert len(script.sessions) == 6
    assert broker.connection_count == 1
    connection.close()


@pytest.mark.parametrize(("waits_s", "failure"), [(0.5, ClientNetworkError), (1, SessionEndedError)])
@run_with(with_broker)
async def test_a_connection_that_is_closed_when_its_session_is_due_ended_with_it(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /, waits_s: float, failure: type
) -> None:
    SaslScript("pencil", lifetime_ms=1_000).install(broker)
    connection = await connect(as_user())
    broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: NO_ANSWER
    late = asyncio.ensure_future(connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id, 10_000))
    await asyncio.sleep(waits_s)
    broker.cut_connections()
    with pytest.raises(ClientNetworkError, match="closed the connection") as caught:
        await late
    assert type(caught.value) is failure


@run_with(with_broker)
async def test_session_without_an_end_is_not_renewed(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    script = SaslScript("pencil")
    script.install(broker)
    connection = await connect(as_user())
    await asyncio.sleep(1_000_000)
    await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert len(script.sessions) == 1
    connection.close()


@run_with(with_broker)
async def test_requests_do_not_come_between_the_messages_of_a_renewal(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    SaslScript("pencil", lifetime_ms=1_000).install(broker)
    connection = await connect(as_user())
    del broker.requests[:]
    loop, due = asyncio.get_running_loop(), connection._renew_at or 0
    # A message is under way for at least 0.1 ms: the first request is not answered when the renewal begins.
    await asyncio.sleep(due - 0.00001 - loop.time())
    early = asyncio.ensure_future(connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id))
    await asyncio.sleep(0.00002)
    assert connection.in_flight_count == 1
    late = [connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id) for _ in range(3)]
    await asyncio.gather(early, *late)
    asked = [request.api_key for request in broker.requests]
    renewal = [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_AUTHENTICATE]
    assert asked == [ApiKey.INIT_PRODUCER_ID, *renewal, *[ApiKey.INIT_PRODUCER_ID] * 3]
    connection.close()


@run_with(with_broker)
async def test_renewal_that_is_refused_ends_the_connection_for_all(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    script = SaslScript("pencil", lifetime_ms=1_000)
    script.install(broker)
    connection = await connect(as_user())
    script.password = "crayon"
    await asyncio.sleep(1)
    requests = [connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id) for _ in range(3)]
    failures = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(failure) for failure in failures] == [SaslAuthenticationError] * 3
    assert not connection.is_open
    assert not broker.asked(ApiKey.INIT_PRODUCER_ID)


@run_with(with_broker)
async def test_renewal_without_an_answer_ends_the_connection_in_time(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    SaslScript("pencil", lifetime_ms=1_000).install(broker)
    connection = await connect(as_user())
    broker.answers[ApiKey.SASL_AUTHENTICATE] = lambda _: NO_ANSWER
    await asyncio.sleep(1)
    with pytest.raises(RequestTimeoutError, match="did not authenticate this client again in 1000 ms"):
        await connection.send_without_response(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert not connection.is_open


@run_with(with_broker)
async def test_cancelled_renewal_ends_the_connection(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    SaslScript("pencil", lifetime_ms=1_000).install(broker)
    connection = await connect(as_user())
    broker.answers[ApiKey.SASL_AUTHENTICATE] = lambda _: NO_ANSWER
    await asyncio.sleep(1)
    first, second = (
        asyncio.ensure_future(connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)) for _ in range(2)
    )
    await asyncio.sleep(0.5)
    first.cancel()
    with pytest.raises(ClientNetworkError, match="authenticating again at server:9 was interrupted"):
        await second
    assert not connection.is_open


class NotedTransport(asyncio.Transport):
    """Takes everything and notes how it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[str] = []

    def writelines(self, list_of_data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return bool(self.ends)

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")


@pytest.mark.parametrize(("in_flight", "end"), [(True, "abort"), (False, "close")])
@run_with(real_time)
async def test_tls_ends_in_order_unless_a_request_is_under_way(in_flight: bool, end: str) -> None:
    settings = ConnectionSettings(security=ClientSecurity(tls=ssl.create_default_context()))
    connection, transport = Connection("server:9", settings), NotedTransport()
    connection.connection_made(transport)
    if in_flight:
        response = connection.post(ApiKey.INIT_PRODUCER_ID, 0, b"")
    connection.close()
    assert transport.ends == [end]
    if in_flight:
        with pytest.raises(ClientNetworkError, match="was closed"):
            await response


@run_with(with_broker)
async def test_answer_in_tls_is_reported(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    def alert(_: ReceivedRequest) -> Any:
        next(iter(broker.connections)).transport.write(bytes.fromhex("15030300020250"))
        return NO_ANSWER

    broker.answers[ApiKey.API_VERSIONS] = alert
    with pytest.raises(TlsAuthenticationError, match=r"server:9 answers with TLS: set security.protocol to SSL"):
        await connect()


def disconnect(_: ReceivedRequest) -> Any:
    raise DisconnectError


@run_with(with_broker)
async def test_broker_that_leaves_at_once_may_expect_tls(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    broker.answers[ApiKey.API_VERSIONS] = disconnect
    with pytest.raises(ClientNetworkError, match=r"if its listener expects TLS, set security.protocol to SSL"):
        await connect()


@run_with(with_broker)
async def test_broker_that_leaves_at_the_first_request_may_expect_sasl(
    broker: ScriptedBroker, connect: Callable[..., Awaitable[Connection]], /
) -> None:
    answer = broker.answers[ApiKey.INIT_PRODUCER_ID]
    broker.answers[ApiKey.INIT_PRODUCER_ID] = disconnect
    connection = await connect()
    with pytest.raises(ClientNetworkError, match=r"expects SASL, set security.protocol to SASL_PLAINTEXT"):
        await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    broker.answers[ApiKey.INIT_PRODUCER_ID] = answer
    connection = await connect()
    await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    broker.answers[ApiKey.INIT_PRODUCER_ID] = disconnect
    with pytest.raises(ClientNetworkError, match=r"server:9 closed the connection$"):
        await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)


@run_with(with_broker)
async def test_unreachable_broker_is_a_network_error(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    broker.close()
    with pytest.raises(ClientNetworkError, match="server:9"):
        await connect()


@run_with(with_broker)
async def test_request_without_response_takes_no_slot(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    broker.answers[ApiKey.PRODUCE] = lambda _: NO_ANSWER
    connection = await connect()
    await connection.send_without_response(
        ApiKey.PRODUCE, lambda types: types.message(acks=0, timeout=0, topic_data=[])
    )
    assert connection.in_flight_count == 0
    await connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id)
    assert len(broker.asked(ApiKey.PRODUCE)) == 1
    connection.close()


@run_with(with_broker)
async def test_requests_wait_for_a_full_socket_and_keep_their_order(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    connection = await connect()
    connection.pause_writing()
    first = asyncio.ensure_future(connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id))
    second = asyncio.ensure_future(connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id))
    await asyncio.sleep(0.5)
    assert not broker.asked(ApiKey.INIT_PRODUCER_ID)
    connection.resume_writing()
    third = asyncio.ensure_future(connection.request(ApiKey.INIT_PRODUCER_ID, init_producer_id))
    answers = [response.producer_id for response in await asyncio.gather(first, second, third)]
    assert answers == sorted(answers)
    connection.close()


@run_with(with_broker)
async def test_refused_version_request_is_reported(
    broker: ScriptedBroker, connect: Callable[[], Awaitable[Connection]], /
) -> None:
    broker.answers[ApiKey.API_VERSIONS] = lambda request: request.types.message(
        error_code=ErrorCode.cluster_authorization_failed, api_keys=[], throttle_time=0
    )
    with pytest.raises(OperationError) as caught:
        await connect()
    assert caught.value.error_code is ErrorCode.cluster_authorization_failed
