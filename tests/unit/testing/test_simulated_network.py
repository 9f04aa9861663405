from __future__ import annotations

import asyncio
import contextvars
import random
import socket
import ssl
from typing import TYPE_CHECKING, Any, cast

import pytest

from crabka.errors import ConfigError
from crabka.testing import SimulatedNetwork, SimulatedTransport, VirtualTimeLoop
from crabka.testing.simulated_network import CONNECT_TIMEOUT_S
from tests.support.async_tests import run_with

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Peer(asyncio.Protocol):
    """Collects what happens to a connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.changed = asyncio.Event()
        self.lost: list[Exception | None] = []
        self.transport: SimulatedTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("SimulatedTransport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self.changed.set()

    async def wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


class World:
    """A network with a server on host `b` and whatever connected to it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, random.Random(seed))
        self.a, self.b = self.network.host("a"), self.network.host("b")
        self.accepted: list[Peer] = []

    def accept(self) -> Peer:
        self.accepted.append(Peer())
        return self.accepted[-1]

    async def connect(self) -> tuple[Peer, Peer]:
        if 9092 not in self.b.listeners:
            await self.b.listen(self.accept, "", 9092)
        _, client = await self.a.connect(Peer, "b", 9092)
        return cast("Peer", client), self.accepted[-1]

    def run(self, main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        self.loop.run(main(self))


@run_with(World().run)
async def test_bytes_travel_both_ways_and_take_time(world: World, /) -> None:
    client, server = await world.connect()
    connected_at = world.loop.time()
    assert connected_at > 0
    client.transport.write(b"ping")
    await server.wait(lambda: server.received == b"ping")
    server.transport.writelines([b"po", b"ng"])
    await client.wait(lambda: client.received == b"pong")
    assert 0.0002 <= world.loop.time() - connected_at <= 0.005


@run_with(World().run)
async def test_connections_can_only_be_written_through_their_transports(world: World, /) -> None:
    client, _ = await world.connect()
    assert world.a.direct_writer(client.transport) is None  # type: ignore[func-returns-value]


@run_with(World().run)
async def test_ends_know_each_others_names(world: World, /) -> None:
    client, server = await world.connect()
    assert client.transport.get_extra_info("peername") == ("b", 9092)
    assert server.transport.get_extra_info("peername") == client.transport.get_extra_info("sockname")
    assert client.transport.get_extra_info("socket") is None


@run_with(World().run)
async def test_ports_without_a_listener_refuse_and_unknown_hosts_are_not_resolved(world: World, /) -> None:
    with pytest.raises(ConnectionRefusedError):
        await world.a.connect(Peer, "b", 9092)
    with pytest.raises(socket.gaierror):
        await world.a.connect(Peer, "nowhere", 9092)


@run_with(World().run)
async def test_tls_is_refused(world: World, /) -> None:
    with pytest.raises(ConfigError, match="the simulated network has no TLS"):
        await world.a.connect(Peer, "b", 9092, tls=ssl.create_default_context())


@run_with(World().run)
async def test_ports_are_picked_taken_and_released(world: World, /) -> None:
    picked = await world.a.listen(Peer, "0.0.0.0", 0)
    assert picked.port > 0
    with pytest.raises(OSError, match="in use"):
        await world.a.listen(Peer, "", picked.port)
    await world.b.listen(Peer, "", picked.port)
    await world.a.connect(Peer, "localhost", picked.port)
    picked.close()
    picked.close()
    with pytest.raises(ConnectionRefusedError):
        await world.a.connect(Peer, "localhost", picked.port)


@run_with(World().run)
async def test_partition_stalls_a_connection_and_healing_delivers_everything_in_order(world: World, /) -> None:
    client, server = await world.connect()
    world.network.partition("a", "b")
    for number in range(100):
        client.transport.write(bytes([number]))
        await asyncio.sleep(0.1)
    assert not server.received
    world.network.heal("b", "a")
    await server.wait(lambda: len(server.received) == 100)
    assert server.received == bytes(range(100))
    assert not client.lost


@run_with(World().run)
async def test_one_way_partition_lets_the_other_way_through(world: World, /) -> None:
    client, server = await world.connect()
    world.network.partition("a", "b", one_way=True)
    server.transport.write(b"down")
    client.transport.write(b"up")
    await client.wait(lambda: client.received == b"down")
    await asyncio.sleep(100)
    assert not server.received
    world.network.heal_all()
    await server.wait(lambda: server.received == b"up")


@run_with(World().run)
async def test_connect_across_a_partition_times_out_or_succeeds_after_healing(world: World, /) -> None:
    await world.connect()
    world.network.isolate("b")
    started = world.loop.time()
    with pytest.raises(TimeoutError) as caught:
        await world.a.connect(Peer, "b", 9092)
    assert isinstance(caught.value, OSError)
    assert world.loop.time() - started == pytest.approx(CONNECT_TIMEOUT_S)
    world.loop.call_later(50, world.network.heal, "a", "b")
    await world.a.connect(Peer, "b", 9092)


@run_with(World().run)
async def test_cancelled_connect_leaves_no_half_open_connection(world: World, /) -> None:
    await world.connect()
    world.network.partition("b", "a", one_way=True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(world.a.connect(Peer, "b", 9092), 5)
    server = world.accepted[-1]
    assert len(world.accepted) == 2
    await server.wait(lambda: bool(server.lost))
    assert isinstance(server.lost[0], ConnectionResetError)


@run_with(World().run)
async def test_cut_resets_both_ends_and_allows_new_connections(world: World, /) -> None:
    client, server = await world.connect()
    world.network.cut("a", "b")
    await client.wait(lambda: bool(client.lost))
    await server.wait(lambda: bool(server.lost))
    assert isinstance(client.lost[0], ConnectionResetError)
    assert isinstance(server.lost[0], ConnectionResetError)
    await world.connect()


@run_with(World().run)
async def test_crash_resets_peers_closes_listeners_and_silences_the_dead(world: World, /) -> None:
    client, server = await world.connect()
    client.transport.write(b"to a dead host")
    world.network.crash("b")
    await client.wait(lambda: bool(client.lost))
    await asyncio.sleep(10)
    assert isinstance(client.lost[0], ConnectionResetError)
    assert not server.lost
    assert not server.received
    with pytest.raises(ConnectionRefusedError):
        await world.a.connect(Peer, "b", 9092)
    await world.connect()


@run_with(World().run)
async def test_latency_of_a_link_can_be_set(world: World, /) -> None:
    client, server = await world.connect()
    world.network.set_latency("a", "b", low_ms=500, high_ms=500)
    started = world.loop.time()
    client.transport.write(b"slow")
    await server.wait(lambda: bool(server.received))
    assert world.loop.time() - started == pytest.approx(0.5)


@run_with(World().run)
async def test_error_in_the_servers_factory_is_not_the_clients(world: World, /) -> None:
    def broken() -> Peer:
        raise ValueError("no protocol")

    errors: list[object] = []
    world.loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    await world.b.listen(broken, "", 9092)
    with pytest.raises(ConnectionResetError):
        await world.a.connect(Peer, "b", 9092)
    assert [type(error) for error in errors] == [ValueError]


def test_runs_are_repeatable_by_seed() -> None:
    def trace(seed: int) -> list[tuple[float, int]]:
        seen: list[tuple[float, int]] = []

        async def main(world: World) -> None:
            client, server = await world.connect()
            for _ in range(20):
                client.transport.write(bytes(1000))
            size = 0
            while size < 20_000:
                await server.wait(lambda size=size: len(server.received) > size)  # type: ignore[misc]
                size = len(server.received)
                seen.append((world.loop.time(), size))

        World(seed).run(main)
        return seen

    assert trace(5) == trace(5)
    assert trace(5) != trace(6)


def test_a_protocol_is_called_in_the_context_of_its_own_side() -> None:
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")
    world = World()
    calls: list[tuple[str, str]] = []

    class Placed(Peer):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name
            calls.append((name, place.get()))

        def data_received(self, data: bytes) -> None:
            calls.append((self.name, place.get()))
            super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            calls.append((self.name, place.get()))
            super().connection_lost(exc)

    async def serve() -> None:
        place.set("server")
        await world.b.listen(lambda: Placed("server"), "", 9092)

    async def ask() -> None:
        place.set("client")
        transport, _ = await world.a.connect(lambda: Placed("client"), "b", 9092)
        cast("SimulatedTransport", transport).write(b"hello")
        transport.close()

    async def main() -> None:
        await asyncio.create_task(serve())
        await asyncio.create_task(ask())
        await asyncio.sleep(1)

    world.loop.run(main())
    assert len(calls) >= 5
    assert all(name == where for name, where in calls)
