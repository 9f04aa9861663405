"""SASL with a scripted broker: mechanisms, refusals, sessions that end."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crabka.clients.cluster.connection import Connection, ConnectionSettings
from crabka.clients.errors import SaslAuthenticationError
from crabka.clients.security.sasl import PlainExchange, SaslClient, SaslCredentials
from crabka.clients.security.security import ClientSecurity
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.secret import Secret
from tests.support.async_tests import run_with
from tests.support.clients.scram_server import REFUSED, SaslScript
from tests.support.clients.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.clients.simulation import ClientSimulation, simulate

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORD = "pencil"
Connect = Callable[..., Awaitable[Connection]]


def with_broker(test: Callable[[ScriptedBroker, Connect], Awaitable[None]], script: SaslScript | None) -> None:
    """Run a test with a broker that wants SASL and a function that connects with a mechanism and a password."""

    async def main(simulation: ClientSimulation) -> None:
        broker = ScriptedBroker()
        if script is not None:
            script.install(broker)
        await broker.listen(simulation.network.host("server"), "server", 9)

        async def connect(mechanism: str = "PLAIN", password: str = PASSWORD) -> Connection:
            sasl = SaslClient(SaslCredentials(mechanism, "alice", Secret(password)), random.Random(1))
            settings = ConnectionSettings(security=ClientSecurity(sasl=sasl))
            return await Connection.open(simulation.runtime.network, "server", 9, settings)

        try:
            await test(broker, connect)
        finally:
            broker.close()

    simulate(main)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_user_is_accepted(mechanism: str) -> None:
    script = SaslScript("pencil")

    async def test(broker: ScriptedBroker, connect: Connect) -> None:
        connection = await connect(mechanism)
        assert connection.is_open
        assert script.sessions == [mechanism]
        asked = [request.api_key for request in broker.requests]
        tokens = 1 if mechanism == "PLAIN" else 2
        assert asked == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, *[ApiKey.SASL_AUTHENTICATE] * tokens]
        assert broker.asked(ApiKey.SASL_HANDSHAKE)[0].version == 1
        assert broker.asked(ApiKey.SASL_AUTHENTICATE)[0].version == 2
        connection.close()

    with_broker(test, script)


@pytest.mark.parametrize("version", [0, 1])
@run_with(lambda test: with_broker(test, SaslScript("pencil")))
async def test_older_brokers_carry_tokens_in_older_requests(
    broker: ScriptedBroker, connect: Connect, /, version: int
) -> None:
    broker.versions[ApiKey.SASL_AUTHENTICATE] = (0, version)
    connection = await connect("SCRAM-SHA-256")
    assert broker.asked(ApiKey.SASL_AUTHENTICATE)[0].version == version
    connection.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@run_with(lambda test: with_broker(test, SaslScript("pencil")))
async def test_wrong_password_is_reported_in_the_words_of_the_broker_and_without_the_password(
    broker: ScriptedBroker, connect: Connect, /, mechanism: str
) -> None:
    with pytest.raises(SaslAuthenticationError) as caught:
        await connect(mechanism, "crayon")
    reported = f"SASL authentication of 'alice' by {mechanism} failed at server:9: {REFUSED}"
    assert str(caught.value) == reported
    assert "crayon" not in repr(caught.value)


@run_with(lambda test: with_broker(test, SaslScript("pencil", ("GSSAPI", "PLAIN"))))
async def test_broker_without_the_mechanism_reports_which_it_has(broker: ScriptedBroker, connect: Connect, /) -> None:
    reported = "server:9 does not offer the SASL mechanism SCRAM-SHA-512, it offers GSSAPI, PLAIN"
    with pytest.raises(SaslAuthenticationError, match=reported):
        await connect("SCRAM-SHA-512")
    assert not broker.asked(ApiKey.SASL_AUTHENTICATE)


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        (ErrorCode.illegal_sasl_state, "server:9 expects no SASL: if its listener is without SASL"),
        (ErrorCode.unknown_server_error, "server:9 refused the SASL mechanism PLAIN: unknown_server_error"),
    ],
)
@run_with(with_broker, None)
async def test_refused_handshake_is_reported(
    broker: ScriptedBroker, connect: Connect, /, code: ErrorCode, complaint: str
) -> None:
    def refuse(request: ReceivedRequest) -> Any:
        return request.types.message(error_code=code, mechanisms=[])

    broker.answers[ApiKey.SASL_HANDSHAKE] = refuse
    with pytest.raises(SaslAuthenticationError, match=complaint):
        await connect()


@pytest.mark.parametrize("missing", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
@run_with(with_broker, None)
async def test_broker_without_sasl_is_reported(broker: ScriptedBroker, connect: Connect, /, missing: ApiKey) -> None:
    del broker.versions[missing]
    with pytest.raises(SaslAuthenticationError, match=r"server:9 does not support SASL: set security.protocol"):
        await connect()


@run_with(with_broker, None)
async def test_broker_that_wants_bare_tokens_is_reported_as_old(broker: ScriptedBroker, connect: Connect, /) -> None:
    broker.versions[ApiKey.SASL_HANDSHAKE] = (0, 0)
    with pytest.raises(SaslAuthenticationError, match=r"older than Kafka 1.0"):
        await connect()


@run_with(lambda test: with_broker(test, SaslScript("pencil", signature=b"v=AAAA")))
async def test_broker_that_does_not_know_the_password_is_not_trusted(
    broker: ScriptedBroker, connect: Connect, /
) -> None:
    with pytest.raises(SaslAuthenticationError, match="signature of the server is wrong"):
        await connect("SCRAM-SHA-256")
    assert all(request.api_key is not ApiKey.METADATA for request in broker.requests)


@run_with(lambda test: with_broker(test, SaslScript("pencil")))
async def test_error_without_words_is_reported_by_its_code(broker: ScriptedBroker, connect: Connect, /) -> None:
    def refuse(request: ReceivedRequest) -> Any:
        code = ErrorCode.illegal_sasl_state
        return request.types.message(error_code=code, error_message=None, auth_bytes=b"", session_lifetime=0)

    broker.answers[ApiKey.SASL_AUTHENTICATE] = refuse
    with pytest.raises(SaslAuthenticationError, match="illegal_sasl_state"):
        await connect()


@run_with(lambda test: with_broker(test, SaslScript("pencil")))
async def test_every_exchange_has_a_nonce_of_its_own(broker: ScriptedBroker, connect: Connect, /) -> None:
    sasl = SaslClient(SaslCredentials("SCRAM-SHA-256", "alice", Secret("pencil")), random.Random(1))
    connection = await connect()
    del broker.requests[:]
    assert await sasl.authenticate(connection) is None
    assert await sasl.authenticate(connection) is None
    firsts = [request.body.auth_bytes for request in broker.asked(ApiKey.SASL_AUTHENTICATE)][::2]
    assert len(firsts) == 2
    nonces = {first.partition(b",r=")[2] for first in firsts}
    assert len(nonces) == 2
    assert all(len(nonce) == 48 for nonce in nonces)
    connection.close()


def test_renewal_is_due_within_kafkas_window_before_the_session_ends() -> None:
    script = SaslScript("pencil", lifetime_ms=10_000)

    async def test(broker: ScriptedBroker, connect: Connect) -> None:
        sasl = SaslClient(SaslCredentials("PLAIN", "alice", Secret("pencil")), random.Random(1))
        connection = await connect()
        dues = [await sasl.authenticate(connection) for _ in range(50)]
        assert all(due is not None and 8_500 <= due <= 9_500 for due in dues)
        assert len(set(dues)) > 20
        connection.close()

    with_broker(test, script)


def test_plain_sends_name_and_password_once() -> None:
    exchange = PlainExchange("alice", Secret("pencil"))
    assert exchange.respond(b"") == b"\0alice\0pencil"
    assert exchange.respond(b"") is None


def test_password_does_not_show_in_the_client() -> None:
    assert "pencil" not in repr(SaslClient(SaslCredentials("PLAIN", "alice", Secret("pencil")), random.Random(1)))
