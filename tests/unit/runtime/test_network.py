from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any, cast

import pytest

from crabka.runtime import AsyncioNetwork, network, new_event_loop
from crabka.runtime.network import own_host_name

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
def test_connects_and_tells_the_real_port(run: Callable[[Coroutine[Any, Any, None]], None], host: str) -> None:
    if host == "::1" and not usable(host):
        pytest.skip("no IPv6 here")

    async def main() -> None:
        listener = await AsyncioNetwork().listen(Echo, host, 0)
        assert listener.port > 0
        assert listener.host == host
        assert await echoed(host, listener.port, b"hello") == b"hello"
        listener.close()

    run(main())


def test_empty_host_listens_on_all_interfaces_with_one_port(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def main() -> None:
        listener = await AsyncioNetwork().listen(Echo, "", 0)
        for host in filter(usable, ("127.0.0.1", "::1")):
            assert await echoed(host, listener.port, b"x") == b"x"
        listener.close()

    run(main())


def test_small_writes_are_not_delayed(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def main() -> None:
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

    run(main())


def test_a_connection_can_be_written_past_its_transport(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def main() -> None:
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

    run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_listening_is_connection_refused(run: Callable[[Coroutine[Any, Any, None]], None], host: str) -> None:
    async def main() -> None:
        listener = await AsyncioNetwork().listen(Echo, host, 0)
        listener.close()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await AsyncioNetwork().connect(Client, host, listener.port)

    run(main())


def test_port_in_use_is_an_os_error(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def main() -> None:
        listener = await AsyncioNetwork().listen(Echo, "127.0.0.1", 0)
        with pytest.raises(OSError, match=r"[Aa]ddress (already )?in use"):
            await AsyncioNetwork().listen(Echo, "127.0.0.1", listener.port)
        listener.close()

    run(main())


def test_connections_outlive_their_listener(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def main() -> None:
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

    run(main())


def test_the_machine_has_a_name() -> None:
    assert own_host_name()


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
TIMED_OUT = TimeoutError(errno.ETIMEDOUT, "timed out")
UNREACHABLE = OSError(errno.ENETUNREACH, "unreachable")
UNUSABLE = OSError(errno.EADDRNOTAVAIL, "no such address here")


@pytest.mark.parametrize(
    ("failures", "told"),
    [
        ([REFUSED, REFUSED], REFUSED),
        ([REFUSED, TIMED_OUT], TIMED_OUT),
        ([TIMED_OUT, REFUSED], TIMED_OUT),
        ([REFUSED, UNREACHABLE, REFUSED], UNREACHABLE),
        ([UNUSABLE, REFUSED], REFUSED),
        ([UNUSABLE, UNUSABLE], UNUSABLE),
    ],
)
def test_a_host_refuses_only_if_all_its_usable_addresses_do(
    failures: list[OSError], told: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(_host: str, _port: int) -> list[tuple[socket.AddressFamily, str]]:
        return [(socket.AF_INET, str(number)) for number in range(len(failures))]

    async def main() -> None:
        async def fail(_factory: object, address: str, _port: int) -> None:
            raise failures[int(address)]

        monkeypatch.setattr(network, "_resolve", resolve)
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fail)
        with pytest.raises(OSError, match=str(told.strerror)) as caught:
            await connected("somewhere", 1)
        assert caught.value is told

    asyncio.run(main())
