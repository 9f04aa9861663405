from __future__ import annotations

import asyncio

import pytest

from crabka.net import ConnectionInfo, ConnectionLimits, Server
from crabka.net.descriptor_guard import DescriptorGuard
from crabka.net.server import SWEEPS_PER_IDLE_LIMIT
from crabka.runtime import AsyncioNetwork
from tests.support.async_tests import real_time, run_with
from tests.support.wire.net import LOOPS, Script, framed, on_loop, staged

on_each_loop = pytest.mark.parametrize("loop_name", list(LOOPS))


@on_each_loop
@run_with(on_loop)
async def test_an_idle_connection_is_cut_and_an_active_one_is_not() -> None:
    async with staged(Script()) as stage:
        idle, active = await stage.connect(), await stage.connect()
        await stage.until(lambda: len(stage.server.connections) == 2)
        for _ in range(SWEEPS_PER_IDLE_LIMIT):
            stage.server.sweep()
            active.send(b"ping")
            assert await active.receive() == b"ping"
        assert len(stage.server.connections) == 2
        stage.server.sweep()
        assert await idle.wait_closed_by_peer() == b""
        assert len(stage.server.connections) == 1


@on_each_loop
@run_with(on_loop)
async def test_a_timer_sweeps() -> None:
    async with staged(Script(), ConnectionLimits(max_idle_ms=32)) as stage:
        idle = await stage.connect()
        assert await idle.wait_closed_by_peer() == b""


@on_each_loop
@run_with(on_loop)
async def test_a_connection_that_waits_for_the_node_is_not_idle() -> None:
    script = Script()
    async with staged(script) as stage:
        client = await stage.connect()
        client.send(b"wait")
        await stage.until(lambda: b"wait" in script.waiting)
        for _ in range(2 * SWEEPS_PER_IDLE_LIMIT):
            stage.server.sweep()
        script.answer(b"wait")
        assert await client.receive() == b"wait"


@on_each_loop
@run_with(on_loop)
async def test_a_peer_that_never_reads_its_response_is_cut() -> None:
    def dispatch(_info: ConnectionInfo, _frame: memoryview) -> list[bytes]:
        return [framed(bytes(50_000_000))]

    async with staged(dispatch) as stage:
        client = await stage.connect(limit=1024)
        client.send(b"more", b"never served")
        await stage.until_stopped()
        while stage.server.connections:
            stage.server.sweep()
            await asyncio.sleep(0)


@on_each_loop
@run_with(on_loop)
async def test_a_negative_idle_limit_means_no_limit() -> None:
    async with staged(Script(), ConnectionLimits(max_idle_ms=-1)) as stage:
        client = await stage.connect()
        client.send(b"a")
        assert await client.receive() == b"a"
        assert stage.server.tick == 0


@on_each_loop
@run_with(on_loop)
async def test_connections_over_the_limit_are_refused() -> None:
    async with staged(Script(), ConnectionLimits(max_connections=1)) as stage:
        first = await stage.connect()
        first.send(b"a")
        assert await first.receive() == b"a"
        second = await stage.connect()
        assert await second.wait_closed_by_peer() == b""
        first.send(b"b")
        assert await first.receive() == b"b"


@on_each_loop
@run_with(on_loop)
async def test_close_answers_requests_in_progress_and_takes_no_new_ones() -> None:
    script = Script()
    async with staged(script) as stage:
        client, idle = await stage.connect(), await stage.connect()
        client.send(b"wait")
        await stage.until(lambda: b"wait" in script.waiting and len(stage.server.connections) == 2)
        closing = asyncio.ensure_future(stage.server.close())
        assert await idle.wait_closed_by_peer() == b""
        client.send(b"too late")
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", stage.port)
        script.answer(b"wait")
        await closing
        assert (await client.wait_closed_by_peer())[: len(framed(b"wait"))] in (framed(b"wait"), b"")
        assert script.seen == [b"wait"]
        assert not stage.server.connections


@on_each_loop
@run_with(on_loop)
async def test_close_cuts_what_is_not_answered_in_time() -> None:
    script = Script()
    async with staged(script) as stage:
        client = await stage.connect()
        client.send(b"wait")
        await stage.until(lambda: b"wait" in script.waiting)
        await stage.server.close(grace_ms=10)
        assert script.waiting[b"wait"].cancelled()
        assert await client.wait_closed_by_peer() == b""


@run_with(real_time)
async def test_close_without_listen_or_connections_returns() -> None:
    await Server(AsyncioNetwork(), Script()).close()


@on_each_loop
@run_with(on_loop)
async def test_connections_know_their_peer_and_listener() -> None:
    script = Script()
    async with staged(script) as stage:
        client = await stage.connect()
        client.send(b"a")
        assert await client.receive() == b"a"
        (info,) = script.connections
        assert (info.peer_host, info.peer_port) == client.writer.get_extra_info("sockname")[:2]
        assert info.listener == "PLAINTEXT"
        assert info.client_software_name == "unknown"


@on_each_loop
@run_with(on_loop)
async def test_the_end_of_every_connection_is_reported() -> None:
    ended: list[ConnectionInfo] = []
    server = Server(AsyncioNetwork(), lambda _info, _frame: None, on_closed=ended.append)
    listener = await server.listen("127.0.0.1", 0)
    transport, _ = await AsyncioNetwork().connect(asyncio.Protocol, "127.0.0.1", listener.port)
    while not server.connections:
        await asyncio.sleep(0)
    (connection,) = server.connections
    transport.close()
    while not ended:
        await asyncio.sleep(0)
    assert ended == [connection.info]
    await server.close()


@on_each_loop
@run_with(on_loop)
async def test_a_connection_without_a_descriptor_to_spare_is_closed() -> None:
    reserve = 0
    guard = DescriptorGuard(1000, lambda: reserve)
    async with staged(Script(), guard=guard) as stage:
        first = await stage.connect()
        first.send(b"ping")
        assert await first.receive() == b"ping"
        reserve = 999
        refused = await stage.connect()
        assert await refused.wait_closed_by_peer() == b""
        assert guard.refused_count == 1
        # Those that are there go on.
        first.send(b"ping")
        assert await first.receive() == b"ping"


@on_each_loop
@run_with(on_loop)
async def test_an_abort_cuts_connections_without_their_answers_and_refuses_others() -> None:
    script = Script()
    async with staged(script) as stage:
        client = await stage.connect()
        client.send(b"wait")
        await stage.until(lambda: b"wait" in script.waiting)
        stage.server.abort()
        assert await client.wait_closed_by_peer() == b""
        with pytest.raises(ConnectionRefusedError):
            await stage.connect()
