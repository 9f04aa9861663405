from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from crabka.runtime import AsyncioNetwork, network, new_event_loop
from crabka.runtime.network import own_host_name
from tests.support.async_tests import real_time, run_with
from tests.support.wire.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Echo(asyncio.Protocol):
    """Sends back what it receives and shows its transport to the test."""

    def __init__(self, accepted: asyncio.Queue[asyncio.Transport] | None = None) -> None:
        self.accepted = accepted or asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.accepted.put_nowait(self.transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received.put_nowait(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return run_on_loop


def usable(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, 0), family=family).close()
    except OSError:
        return False
    return True


async def connected(host: str, port: int) -> tuple[asyncio.Transport, Client]:
    transport, client = await AsyncioNetwork().connect(Client, host, port)
    assert isinstance(client, Client)
    return cast("asyncio.Transport", transport), client


async def echoed(host: str, port: int, data: bytes) -> bytes:
    transport, client = await connected(host, port)
    transport.write(data)
    received = await client.received.get()
    transport.close()
    await client.lost
    return received


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
@run_with(lambda test, run: run(test()))
async def test_connects_and_reports_the_real_port(host: str) -> None:
    if host == "::1" and not usable(host):
        pytest.skip("no IPv6 here")

    listener = await AsyncioNetwork().listen(Echo, host, 0)
    assert listener.port > 0
    assert listener.host == host
    assert await echoed(host, listener.port, b"hello") == b"hello"
    listener.close()


@run_with(lambda test, run: run(test()))
async def test_empty_host_listens_on_all_interfaces_with_one_port() -> None:
    listener = await AsyncioNetwork().listen(Echo, "", 0)
    for host in filter(usable, ("127.0.0.1", "::1")):
        assert await echoed(host, listener.port, b"x") == b"x"
    listener.close()


@run_with(lambda test, run: run(test()))
async def test_small_writes_are_not_delayed() -> None:
    accepted: asyncio.Queue[asyncio.Transport] = asyncio.Queue()
    listener = await AsyncioNetwork().listen(lambda: Echo(accepted), "127.0.0.1", 0)
    transport, client = await connected("127.0.0.1", listener.port)
    server_end = await accepted.get()
    for end in (server_end, transport):
        assert end.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    transport.close()
    server_end.close()
    listener.close()
    await client.lost


@run_with(lambda test, run: run(test()))
async def test_a_connection_can_be_written_past_its_transport() -> None:
    accepted: asyncio.Queue[asyncio.Transport] = asyncio.Queue()
    network = AsyncioNetwork()
    listener = await network.listen(lambda: Echo(accepted), "127.0.0.1", 0)
    transport, client = await connected("127.0.0.1", listener.port)
    server_end = await accepted.get()
    writer = network.direct_writer(transport)
    assert writer is not None
    assert writer.send(b"direct", more=False) == 6
    assert await client.received.get() == b"direct"
    writer.close()
    transport.close()
    server_end.close()
    listener.close()
    await client.lost


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@run_with(lambda test, run: run(test()))
async def test_no_listener_is_connection_refused(host: str) -> None:
    listener = await AsyncioNetwork().listen(Echo, host, 0)
    listener.close()
    await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        await AsyncioNetwork().connect(Client, host, listener.port)


class Encrypted(NamedTuple):
    """A server's side of TLS, and a client's that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Encrypted:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.issue("server", names="DNS:localhost"))
    return Encrypted(server, ssl.create_default_context(cafile=str(authority.certificate)))


@run_with(lambda test, run: run(test()))
async def test_tls_is_with_the_host_that_was_named(encrypted: Encrypted) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0, ssl=encrypted.server)
    port = server.sockets[0].getsockname()[1]
    transport, client = await AsyncioNetwork().connect(Client, "localhost", port, tls=encrypted.client)
    assert isinstance(client, Client)
    cast("asyncio.Transport", transport).write(b"ping")
    assert await client.received.get() == b"ping"
    assert AsyncioNetwork().direct_writer(transport) is None
    transport.close()
    await client.lost
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for '127\.0\.0\.1'"):
        await AsyncioNetwork().connect(Client, "127.0.0.1", port, tls=encrypted.client)
    accepting = asyncio.all_tasks() - {asyncio.current_task()}
    if accepting:
        await asyncio.wait(accepting)
    server.close()
    await server.wait_closed()


def test_host_that_cannot_be_trusted_is_not_tried_at_its_other_addresses(
    run: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    async def two_addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
        return [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.2")]

    async def main() -> None:
        async def refuse(_factory: Any, address: str, *_args: Any, **_options: Any) -> Any:
            tried.append(address)
            raise ssl.SSLCertVerificationError(1, "stranger")

        monkeypatch.setattr(network, "_resolve", two_addresses)
        loop = SimpleNamespace(create_connection=refuse)
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
        with pytest.raises(ssl.SSLCertVerificationError):
            await AsyncioNetwork().connect(Client, "localhost", 1, tls=ssl.create_default_context())
        monkeypatch.undo()

    run(main())
    assert tried == ["127.0.0.1"]


@run_with(lambda test, run: run(test()))
async def test_peer_that_does_not_agree_to_the_end_of_tls_is_not_waited_for(
    encrypted: Encrypted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "TLS_SHUTDOWN_S", 0.01)

    def accept_and_keep_silent(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with accepted.dup() as held:
            encrypted_socket = encrypted.server.wrap_socket(accepted, server_side=True)
            while held.recv(4096):
                pass
            encrypted_socket.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        serving = asyncio.get_running_loop().run_in_executor(pool, accept_and_keep_silent, listener)
        port = listener.getsockname()[1]
        transport, client = await AsyncioNetwork().connect(Client, "localhost", port, tls=encrypted.client)
        assert isinstance(client, Client)
        transport.close()
        # By default the loops wait for half a minute.
        async with asyncio.timeout(20):
            await client.lost
            await serving


@run_with(lambda test, run: run(test()))
async def test_port_in_use_is_an_os_error() -> None:
    listener = await AsyncioNetwork().listen(Echo, "127.0.0.1", 0)
    with pytest.raises(OSError, match=r"[Aa]ddress (already )?in use"):
        await AsyncioNetwork().listen(Echo, "127.0.0.1", listener.port)
    listener.close()


@run_with(lambda test, run: run(test()))
async def test_connections_outlive_their_listener() -> None:
    accepted: asyncio.Queue[asyncio.Transport] = asyncio.Queue()
    listener = await AsyncioNetwork().listen(lambda: Echo(accepted), "127.0.0.1", 0)
    transport, client = await connected("127.0.0.1", listener.port)
    server_end = await accepted.get()
    listener.close()
    transport.write(b"still here")
    assert await client.received.get() == b"still here"
    server_end.abort()
    await client.lost
    await asyncio.sleep(0)


def test_the_machine_has_a_name() -> None:
    assert own_host_name()


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
TIMED_OUT = TimeoutError(errno.ETIMEDOUT, "timed out")
UNREACHABLE = OSError(errno.ENETUNREACH, "unreachable")
UNUSABLE = OSError(errno.EADDRNOTAVAIL, "no such address here")


@pytest.mark.parametrize(
    ("failures", "reported"),
    [
        ([REFUSED, REFUSED], REFUSED),
        ([REFUSED, TIMED_OUT], TIMED_OUT),
        ([TIMED_OUT, REFUSED], TIMED_OUT),
        ([REFUSED, UNREACHABLE, REFUSED], UNREACHABLE),
        ([UNUSABLE, REFUSED], REFUSED),
        ([UNUSABLE, UNUSABLE], UNUSABLE),
    ],
)
@run_with(real_time)
async def test_a_host_refuses_only_if_all_its_usable_addresses_do(
    failures: list[OSError], reported: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(_host: str, _port: int) -> list[tuple[socket.AddressFamily, str]]:
        return [(socket.AF_INET, str(number)) for number in range(len(failures))]

    async def fail(_factory: object, address: str, _port: int) -> None:
        raise failures[int(address)]

    monkeypatch.setattr(network, "_resolve", resolve)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
    with pytest.raises(OSError, match=str(reported.strerror)) as caught:
        await connected("somewhere", 1)
    assert caught.value is reported
