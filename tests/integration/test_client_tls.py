"""Connections over TLS with a certificate made for the occasion."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from crabka._kio import ErrorCode
from crabka.clients import ClientNetworkError, Connection, ConnectionSettings
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.runtime import AsyncioNetwork
from tests.support.scripted_broker import ScriptedBroker, ServerSide

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="openssl makes the certificate, and it is not installed")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return the paths of a self-signed certificate for the loopback address and of its key."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [OPENSSL or "", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


async def serve(broker: ScriptedBroker, certificate: tuple[Path, Path]) -> asyncio.Server:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: ServerSide(broker), "127.0.0.1", 0, ssl=context)


async def open_connection(server: asyncio.Server, **settings: Any) -> Connection:
    port = server.sockets[0].getsockname()[1]
    return await Connection.open(AsyncioNetwork(), "127.0.0.1", port, ConnectionSettings(**settings))


def test_handshake_and_requests_go_through_tls(certificate: tuple[Path, Path]) -> None:
    def choose_plain(types: MessageTypes) -> Any:
        return types.message(mechanism="PLAIN")

    async def main() -> None:
        broker = ScriptedBroker()
        broker.answers[ApiKey.SASL_HANDSHAKE] = lambda request: request.types.message(
            error_code=ErrorCode.none, mechanisms=["PLAIN"]
        )
        mechanisms: list[str] = []

        async def handshake(connection: Connection) -> None:
            mechanisms.extend((await connection.request(ApiKey.SASL_HANDSHAKE, choose_plain)).mechanisms)

        server = await serve(broker, certificate)
        context = ssl.create_default_context(cafile=str(certificate[0]))
        connection = await open_connection(server, ssl_context=context, handshake=handshake)
        assert mechanisms == ["PLAIN"]
        assert connection.is_open
        connection.close()
        await connection.wait_closed()
        server.close()
        await server.wait_closed()

    asyncio.run(main())


def test_unknown_certificate_is_refused(certificate: tuple[Path, Path]) -> None:
    async def main() -> None:
        server = await serve(ScriptedBroker(), certificate)
        with pytest.raises(ClientNetworkError, match="certificate verify failed"):
            await open_connection(server, ssl_context=ssl.create_default_context())
        accepting = asyncio.all_tasks() - {asyncio.current_task()}
        if accepting:
            await asyncio.wait(accepting)
        server.close()
        await server.wait_closed()

    asyncio.run(main())
