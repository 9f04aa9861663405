"""Clients over real TLS sockets, on both event loops: what works, and one clear error for each way it does not."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from crabka.clients import (
    AuthenticationError,
    ClientNetworkError,
    ClientSecurity,
    Connection,
    ConnectionSettings,
    TlsAuthenticationError,
)
from crabka.protocol.apis import ApiKey
from crabka.runtime import AsyncioNetwork, new_event_loop
from tests.support.clients.scram_server import SaslScript
from tests.support.clients.scripted_broker import ScriptedBroker, ServerSide
from tests.support.wire.certificates import Authority, KeyPair

Runner = Callable[[Callable[[], Awaitable[None]]], None]


class World(NamedTuple):
    """An authority and certificates of a broker: a good one, one for another host, one that is over."""

    authority: Authority
    server: KeyPair
    elsewhere: KeyPair
    expired: KeyPair
    client: KeyPair


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return World(
        authority,
        authority.issue("server"),
        authority.issue("elsewhere", names="DNS:elsewhere.example"),
        authority.issue("expired", expired=True),
        authority.issue("client"),
    )


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Runner:
    def run_on_loop(main: Callable[[], Awaitable[None]]) -> None:
        async def test() -> None:
            await main()
            # What the server side of a refused handshake still has to do.
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(test())

    return run_on_loop


def server_context(pair: KeyPair, *, clients_of: Authority | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    if clients_of is not None:
        context.load_verify_locations(clients_of.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class Listening:
    """A scripted broker on a real socket with TLS."""

    def __init__(self, pair: KeyPair, *, clients_of: Authority | None = None) -> None:
        self.broker = ScriptedBroker()
        self._context = server_context(pair, clients_of=clients_of)

    async def __aenter__(self) -> Listening:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: ServerSide(self.broker), "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.broker.cut_connections()
        self._server.close()
        await self._server.wait_closed()

    async def connect(self, properties: dict[str, str]) -> Connection:
        settings = ConnectionSettings(security=ClientSecurity.from_properties(properties))
        return await Connection.open(AsyncioNetwork(), "127.0.0.1", self.port, settings)


def encrypted(world: World, **more: str) -> dict[str, str]:
    trusted = {"security.protocol": "SSL", "ssl.ca.location": str(world.authority.certificate)}
    return {**trusted, **{key.replace("_", "."): value for key, value in more.items()}}


async def closed(connection: Connection) -> None:
    connection.close()
    await connection.wait_closed()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_connection_is_encrypted(run: Runner, world: World, version: str) -> None:
    async def main() -> None:
        async with Listening(world.server) as listening:
            connection = await listening.connect(encrypted(world, ssl_enabled_protocols=version))
            (server_side,) = listening.broker.connections
            assert server_side.transport.get_extra_info("ssl_object").version() == version
            assert connection.api_versions is not None
            await closed(connection)

    run(main)


def test_user_authenticates_through_tls(run: Runner, world: World) -> None:
    async def main() -> None:
        async with Listening(world.server) as listening:
            script = SaslScript("pencil")
            script.install(listening.broker)
            properties = encrypted(world, sasl_mechanism="SCRAM-SHA-512", sasl_username="alice", sasl_password="pencil")
            connection = await listening.connect({**properties, "security.protocol": "SASL_SSL"})
            assert script.sessions == ["SCRAM-SHA-512"]
            await closed(connection)

    run(main)


def test_client_shows_a_certificate_with_an_encrypted_key(run: Runner, world: World) -> None:
    keystore = world.authority.keystore(world.authority.encrypted(world.client, "s3cret"))
    own = {"ssl.keystore.location": str(keystore), "ssl.keystore.type": "PEM", "ssl.key.password": "s3cret"}

    async def main() -> None:
        async with Listening(world.server, clients_of=world.authority) as listening:
            await closed(await listening.connect({**encrypted(world), **own}))

    run(main)


def refuse_one(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Shake hands with one client and say in an alert why not, which servers of asyncio do not do."""
    accepted, _ = listener.accept()
    with accepted.dup() as held:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(accepted, server_side=True)
        # Closing before the client has said all would reset the connection and lose the alert.
        while held.recv(4096):
            pass


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_missing_certificate_of_the_client_is_reported(run: Runner, world: World, version: str) -> None:
    settings = ConnectionSettings(
        security=ClientSecurity.from_properties(encrypted(world, ssl_enabled_protocols=version))
    )

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
            context = server_context(world.server, clients_of=world.authority)
            refusing = asyncio.get_running_loop().run_in_executor(pool, refuse_one, listener, context)
            with pytest.raises(
                TlsAuthenticationError, match=r"if it wants a certificate of the client, set ssl.keystore.location"
            ):
                await Connection.open(AsyncioNetwork(), "127.0.0.1", listener.getsockname()[1], settings)
            await refusing

    run(main)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_broker_that_wants_a_certificate_and_leaves_without_a_word_is_not_a_riddle(
    run: Runner, world: World, version: str
) -> None:
    async def main() -> None:
        async with Listening(world.server, clients_of=world.authority) as listening:
            with pytest.raises(
                ClientNetworkError, match=r"wants a certificate of the client, set ssl.keystore.location"
            ):
                await listening.connect(encrypted(world, ssl_enabled_protocols=version))

    run(main)


def test_unknown_authority_is_reported(run: Runner, world: World, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")

    async def main() -> None:
        async with Listening(world.server) as listening:
            with pytest.raises(TlsAuthenticationError, match=r"not signed by an authority in ssl.ca.location"):
                await listening.connect(encrypted(world, ssl_ca_location=str(stranger.certificate)))

    run(main)


def test_wrong_host_name_is_reported_unless_it_does_not_matter(run: Runner, world: World) -> None:
    async def main() -> None:
        async with Listening(world.elsewhere) as listening:
            with pytest.raises(TlsAuthenticationError, match=r"for another host: .*127\.0\.0\.1"):
                await listening.connect(encrypted(world))
            await closed(await listening.connect(encrypted(world, ssl_endpoint_identification_algorithm="")))

    run(main)


def test_expired_certificate_is_reported(run: Runner, world: World) -> None:
    async def main() -> None:
        async with Listening(world.expired) as listening:
            with pytest.raises(TlsAuthenticationError, match="no longer valid"):
                await listening.connect(encrypted(world))

    run(main)


def test_tls_to_a_plaintext_port_is_reported(run: Runner, world: World) -> None:
    class Kafka(asyncio.Protocol):
        """Takes the beginning of TLS for a request of 369 MB, as Kafka does, and leaves."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.close()

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Kafka, "127.0.0.1", 0)
        settings = ConnectionSettings(security=ClientSecurity.from_properties(encrypted(world)))
        with pytest.raises(ClientNetworkError, match=r"without TLS, set security.protocol to PLAINTEXT"):
            await Connection.open(AsyncioNetwork(), "127.0.0.1", server.sockets[0].getsockname()[1], settings)
        server.close()
        await server.wait_closed()

    run(main)


def test_plaintext_to_a_tls_port_is_reported(run: Runner, world: World) -> None:
    async def main() -> None:
        async with Listening(world.server) as listening:
            with pytest.raises((AuthenticationError, ClientNetworkError), match=r"set security.protocol to SSL"):
                await listening.connect({})

    run(main)


def test_connection_that_breaks_later_is_a_matter_of_the_network(run: Runner, world: World) -> None:
    async def main() -> None:
        async with Listening(world.server) as listening:
            connection = await listening.connect(encrypted(world))
            (server_side,) = listening.broker.connections
            server_side.transport.abort()
            await connection.wait_closed()
            with pytest.raises(ClientNetworkError, match="closed the connection"):
                connection.post(ApiKey.API_VERSIONS, 0, b"")

    run(main)
