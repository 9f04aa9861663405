"""Connections that begin with TLS: handshakes in progress have a bound and a deadline, on both loops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.ports import TlsAcceptance
from crabka.runtime import AsyncioNetwork
from tests.support.async_tests import run_with
from tests.support.wire.certificates import Authority
from tests.support.wire.net import LOOPS, run_on

on_each_loop = pytest.mark.parametrize("loop_name", list(LOOPS))


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Those of a server and of a client that trusts it."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("server"))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(authority.certificate)
    return server, client


def on_loop(
    test: Callable[..., Coroutine[Any, Any, None]], loop_name: str, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    run_on(loop_name, test(*contexts))


class Greeter(asyncio.Protocol):
    """Greets every client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(b"hello")  # type: ignore[attr-defined] # both directions


async def greeting(port: int, client: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    try:
        return await reader.readexactly(5)
    finally:
        writer.transport.abort()


@on_each_loop
@run_with(on_loop)
async def test_the_oldest_of_too_many_handshakes_ends(server: ssl.SSLContext, client: ssl.SSLContext, /) -> None:
    failures: list[tuple[str, OSError]] = []
    tls = TlsAcceptance(lambda: server, lambda peer, error: failures.append((peer, error)), max_handshakes=2)
    listener = await AsyncioNetwork().listen(Greeter, "127.0.0.1", 0, tls=tls)
    silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(3)]
    assert await silent[0][0].read() == b""
    assert await greeting(listener.port, client) == b"hello"
    listener.close()
    # A handshake in progress ends with its listener.
    for reader, writer in silent:
        assert await reader.read() == b""
        writer.close()
    assert failures == []


@on_each_loop
@run_with(on_loop)
async def test_a_handshake_has_a_deadline(server: ssl.SSLContext, client: ssl.SSLContext, /) -> None:
    failures: list[tuple[str, OSError]] = []
    tls = TlsAcceptance(lambda: server, lambda peer, error: failures.append((peer, error)), handshake_timeout_s=0.05)
    listener = await AsyncioNetwork().listen(Greeter, "127.0.0.1", 0, tls=tls)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    assert await reader.read() == b""
    writer.close()
    ((peer, error),) = failures
    assert peer == "127.0.0.1"
    assert isinstance(error, ConnectionAbortedError | TimeoutError)
    listener.close()


@on_each_loop
@run_with(on_loop)
async def test_plain_text_is_reported(server: ssl.SSLContext, client: ssl.SSLContext, /) -> None:
    failures: list[tuple[str, OSError]] = []
    tls = TlsAcceptance(lambda: server, lambda peer, error: failures.append((peer, error)))
    listener = await AsyncioNetwork().listen(Greeter, "127.0.0.1", 0, tls=tls)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"\0\0\0\x20" + bytes(32))
    await reader.read()
    writer.close()
    ((_, error),) = failures
    assert isinstance(error, ssl.SSLError)
    listener.close()
