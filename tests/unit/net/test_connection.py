from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crabka.errors import WireError
from crabka.net import ConnectionInfo, ConnectionLimits, Server, ServerConnection
from crabka.net.frame_memory import FrameMemory
from crabka.net.turns import CHECK_REQUESTS, TURN_MS, Turns
from crabka.ports import FileRange
from crabka.protocol.frames import CHUNK_BYTES, READ_BYTES
from crabka.runtime import AsyncioNetwork
from crabka.vfs import OsFileSystem
from tests.support.async_tests import real_time, run_with
from tests.support.wire.net import LOOPS, Client, ManualClock, Script, framed, on_loop, run_on, staged

on_each_loop = pytest.mark.parametrize("loop_name", list(LOOPS))


async def receive_all(client: Client, count: int) -> list[bytes]:
    return [await client.receive() for _ in range(count)]


@on_each_loop
@run_with(on_loop)
async def test_pipelined_requests_are_answered_in_order() -> None:
    payloads = [b"request %d" % number for number in range(500)]
    async with staged(Script()) as stage:
        client = await stage.connect()
        client.send(*payloads)
        assert await receive_all(client, len(payloads)) == payloads


@on_each_loop
@run_with(on_loop)
async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with staged(Script()) as stage:
        client = await stage.connect()
        for byte in framed(b"slow"):
            client.writer.write(bytes((byte,)))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert await client.receive() == b"slow"


@on_each_loop
@run_with(on_loop)
async def test_a_large_request_and_response_go_through() -> None:
    payload = bytes(range(256)) * 16_000
    async with staged(Script()) as stage:
        client = await stage.connect(limit=2**24)
        client.send(payload, b"next")
        assert await receive_all(client, 2) == [payload, b"next"]


@on_each_loop
@run_with(on_loop)
async def test_responses_wait_for_earlier_ones() -> None:
    script = Script()
    async with staged(script) as stage:
        client = await stage.connect()
        client.send(b"one", b"wait 1", b"two", b"wait 2", b"three")
        assert await client.receive() == b"one"
        await stage.until(lambda: len(script.seen) == 5)
        script.answer(b"wait 2")
        await asyncio.sleep(0)
        script.answer(b"wait 1")
        assert await receive_all(client, 4) == [b"wait 1", b"two", b"wait 2", b"three"]


@on_each_loop
@run_with(on_loop)
async def test_requests_without_a_response_leave_no_gap() -> None:
    script = Script()
    async with staged(script) as stage:
        client = await stage.connect()
        client.send(b"silent", b"one", b"wait", b"silent again", b"two")
        assert await client.receive() == b"one"
        await stage.until(lambda: len(script.seen) == 5)
        script.waiting[b"wait"].set_result(None)
        assert await client.receive() == b"two"


def test_synchronous_answers_are_written_with_one_call_and_without_tasks() -> None:
    calls: list[Any] = []

    class Transport(asyncio.Transport):
        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            calls.append("limits")

        def write(self, data: Any) -> None:
            calls.append(bytes(data))

        def writelines(self, list_of_data: Any) -> None:
            calls.append([bytes(data) for data in list_of_data])

    async def main() -> None:
        async with staged(Script()) as stage:
            connection = ServerConnection(stage.server, 1)
            connection.connection_made(Transport({"peername": ("10.0.0.1", 5)}))
            for payloads in ([b"a"], [b"b", b"c"]):
                data = b"".join(map(framed, payloads))
                connection.get_buffer(-1)[: len(data)] = data
                connection.buffer_updated(len(data))
            assert calls == ["limits", framed(b"a"), [framed(b"b"), framed(b"c")]]
            assert str(connection.info) == "10.0.0.1:5"
            assert len(asyncio.all_tasks()) == 1
            connection.connection_lost(None)

    asyncio.run(main())


@on_each_loop
@run_with(on_loop)
async def test_too_many_requests_in_flight_stop_the_connection_until_one_is_answered() -> None:
    script = Script()
    async with staged(script, ConnectionLimits(max_in_flight_requests=3)) as stage:
        client = await stage.connect()
        payloads = [b"wait %d" % number for number in range(10)]
        client.send(*payloads)
        await stage.until_stopped()
        assert script.seen == payloads[:3]
        for number, payload in enumerate(payloads):
            await stage.until(lambda payload=payload: payload in script.waiting)  # type: ignore[misc]
            assert len(script.seen) <= number + 3
            script.answer(payload)
            assert await client.receive() == payload


@on_each_loop
@run_with(on_loop)
async def test_too_many_bytes_in_flight_stop_the_connection() -> None:
    script = Script()
    async with staged(script, ConnectionLimits(max_in_flight_bytes=2 * CHUNK_BYTES)) as stage:
        client = await stage.connect()
        payloads = [b"wait %d " % number + bytes(200_000) for number in range(6)]
        client.send(*payloads)
        await stage.until_stopped()
        assert len(script.seen) == 2
        # The bytes of a request that waits are still those that were sent.
        assert [bytes(frame) for frame in script.frames] == payloads[:2]
        for payload in payloads:
            await stage.until(lambda payload=payload: payload in script.waiting)  # type: ignore[misc]
            script.answer(payload)
            assert await client.receive() == payload


@on_each_loop
@run_with(on_loop)
async def test_a_peer_that_does_not_read_is_not_served_further() -> None:
    served = 0

    def dispatch(_info: ConnectionInfo, _frame: memoryview) -> list[bytes]:
        nonlocal served
        served += 1
        return [framed(bytes(100_000))]

    limits = ConnectionLimits(write_high_bytes=200_000, write_low_bytes=50_000)
    async with staged(dispatch, limits) as stage:
        client = await stage.connect(limit=1024)
        client.send(*[b"more"] * 1000)
        await stage.until_stopped()
        assert served < 1000
        for _ in range(1000):
            assert len(await client.receive()) == 100_000
        assert served == 1000


@on_each_loop
@pytest.mark.parametrize("length", [-1, 1001])
def test_an_illegal_length_closes_the_connection_and_no_other(
    loop_name: str, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with staged(Script(), ConnectionLimits(max_frame_bytes=1000)) as stage:
            good, bad = await stage.connect(), await stage.connect()
            bad.writer.write(framed(b"before") + length.to_bytes(4, "big", signed=True))
            assert await bad.wait_closed_by_peer() == framed(b"before")
            good.send(b"still there")
            assert await good.receive() == b"still there"

    run_on(loop_name, main())
    assert [record.levelname for record in caplog.records if record.name.startswith("crabka")] == ["WARNING"]
    assert f"claims {length} bytes" in caplog.text


def failing(error: Exception, *, later: bool) -> Any:
    def dispatch(_info: ConnectionInfo, frame: memoryview) -> Any:
        if bytes(frame) != b"fail":
            return [framed(bytes(frame))]
        if not later:
            raise error
        future = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        return future

    return dispatch


@on_each_loop
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(("error", "level"), [(WireError("bad version"), "WARNING"), (KeyError("bug"), "ERROR")])
def test_a_failing_request_costs_its_connection_and_is_logged(
    loop_name: str, later: bool, error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with staged(failing(error, later=later)) as stage:
            good, bad = await stage.connect(), await stage.connect()
            bad.send(b"before", b"fail", b"after")
            assert await bad.wait_closed_by_peer() == framed(b"before")
            good.send(b"still there")
            assert await good.receive() == b"still there"

    run_on(loop_name, main())
    (record,) = [record for record in caplog.records if record.name.startswith("crabka")]
    assert record.levelname == level
    assert (record.exc_info is not None) == (level == "ERROR")


class _RequestBuffer:
    """What a handler holds while it fails."""


@on_each_loop
def test_a_failing_request_leaves_nothing_to_the_collector(loop_name: str) -> None:
    buffers: list[weakref.ref[_RequestBuffer]] = []

    def dispatch(_info: ConnectionInfo, _frame: memoryview) -> Any:
        buffer = _RequestBuffer()
        buffers.append(weakref.ref(buffer))
        # The error refers to this frame, and the frame to the error.
        error = WireError("a bomb")
        raise error

    async def main() -> None:
        async with staged(dispatch) as stage:
            peer = await stage.connect()
            gc.disable()
            try:
                peer.send(b"fail")
                assert await peer.wait_closed_by_peer() == b""
                assert [buffer() for buffer in buffers] == [None]
            finally:
                gc.enable()

    run_on(loop_name, main())


@on_each_loop
@run_with(on_loop)
async def test_earlier_requests_are_answered_before_a_broken_connection_closes() -> None:
    script = Script()

    def dispatch(info: ConnectionInfo, frame: memoryview) -> Any:
        if bytes(frame) == b"fail":
            raise WireError("broken")
        return script(info, frame)

    async with staged(dispatch) as stage:
        client = await stage.connect()
        client.send(b"wait", b"fail", b"after")
        await stage.until_stopped()
        script.answer(b"wait")
        assert await client.wait_closed_by_peer() == framed(b"wait")
        assert script.seen == [b"wait"]


@on_each_loop
@run_with(on_loop)
async def test_a_lost_connection_cancels_futures_but_not_tasks() -> None:
    gate = asyncio.Event()
    futures: list[asyncio.Future[Any]] = []

    async def work() -> list[bytes]:
        await gate.wait()
        return [framed(b"late")]

    def dispatch(_info: ConnectionInfo, frame: memoryview) -> Any:
        loop = asyncio.get_running_loop()
        futures.append(loop.create_task(work()) if bytes(frame) == b"task" else loop.create_future())
        return futures[-1]

    async with staged(dispatch) as stage:
        client = await stage.connect()
        client.send(b"poll", b"task")
        await stage.until(lambda: len(futures) == 2)
        client.writer.transport.abort()
        await stage.until(lambda: not stage.server.connections)
        poll, task = futures
        assert poll.cancelled()
        assert not task.done()
        gate.set()
        assert await task == [framed(b"late")]


def test_a_failure_after_the_peer_has_gone_is_still_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        tasks: list[asyncio.Task[Any]] = []

        async def work() -> None:
            await gate.wait()
            raise KeyError("bug")

        def dispatch(_info: ConnectionInfo, _frame: memoryview) -> Any:
            tasks.append(asyncio.get_running_loop().create_task(work()))
            return tasks[0]

        async with staged(dispatch) as stage:
            client = await stage.connect()
            client.send(b"task")
            await stage.until(lambda: bool(tasks))
            client.writer.transport.abort()
            await stage.until(lambda: not stage.server.connections)
            gate.set()
            await stage.until(lambda: "bug" in caplog.text)

    with caplog.at_level(logging.ERROR):
        run_on("asyncio", main())


class Files:
    """Answers a request that is a number with so many ranges of a file between a head and a tail."""

    def __init__(self, path: str) -> None:
        self.file = OsFileSystem().open(path, create=True)
        self.content = bytes(range(256)) * 4096
        self.file.pwritev([self.content], 0)

    def __call__(self, _info: ConnectionInfo, frame: memoryview) -> Any:
        if not bytes(frame).isdigit():
            return [framed(bytes(frame))]
        ranges = [FileRange(self.file, 0, len(self.content), self) for _ in range(int(bytes(frame)))]
        size = sum(map(len, ranges)) + 8
        return [size.to_bytes(4, "big") + b"head", *ranges, b"tail"]

    def expected(self, count: int) -> bytes:
        """The payload of an answer."""
        return b"head" + self.content * count + b"tail"


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    made = Files(f"{tmp_path}/file")
    yield made
    made.file.close()


@on_each_loop
@run_with(on_loop)
async def test_answers_with_ranges_keep_their_place_among_others(files: Files) -> None:
    async with staged(files) as stage:
        client = await stage.connect(limit=2**25)
        client.send(b"a", b"1", b"b", b"20", b"3", b"c")
        expected = [b"a", files.expected(1), b"b", files.expected(20), files.expected(3), b"c"]
        assert await receive_all(client, len(expected)) == expected


@on_each_loop
@run_with(on_loop)
async def test_a_peer_that_does_not_take_ranges_is_no_longer_read(files: Files) -> None:
    async with staged(files) as stage:
        client = await stage.connect(limit=1)
        client.send(b"20")
        await stage.until_stopped()
        (connection,) = stage.server.connections
        assert connection._transport is not None
        # The file is the buffer.
        assert connection._transport.get_write_buffer_size() == 0
        client.send(b"later")
        assert await client.receive() == files.expected(20)
        assert await client.receive() == b"later"


@on_each_loop
@run_with(on_loop)
async def test_a_server_that_closes_sends_ranges_to_their_end(files: Files) -> None:
    async with staged(files) as stage:
        client = await stage.connect(limit=1)
        client.send(b"20", b"never")
        await stage.until_stopped()
        closing = asyncio.ensure_future(stage.server.close(grace_ms=10_000))
        assert await client.receive() == files.expected(20)
        assert await client.wait_closed_by_peer() == b""
        await closing


@on_each_loop
@run_with(on_loop)
async def test_a_peer_that_closed_its_half_still_gets_its_ranges(files: Files) -> None:
    async with staged(files) as stage:
        client = await stage.connect(limit=1)
        client.send(b"20")
        client.writer.write_eof()
        assert await client.receive() == files.expected(20)
        assert await client.wait_closed_by_peer() == b""
        await stage.until(lambda: not stage.server.connections)


@on_each_loop
@run_with(on_loop)
async def test_a_file_that_is_cut_while_it_is_sent_costs_the_connection(files: Files) -> None:
    async with staged(files) as stage:
        client = await stage.connect(limit=2**20)
        client.send(b"20")
        await stage.until_stopped()
        files.file.truncate(0)
        assert len(await client.wait_closed_by_peer()) < len(files.expected(20))
        await stage.until(lambda: not stage.server.connections)


@on_each_loop
@run_with(on_loop)
async def test_a_peer_that_goes_while_ranges_wait_leaves_nothing_behind(files: Files) -> None:
    async with staged(files) as stage:
        client = await stage.connect(limit=1)
        client.send(b"20")
        await stage.until_stopped()
        client.writer.transport.abort()
        await stage.until(lambda: not stage.server.connections)


@on_each_loop
@run_with(on_loop)
async def test_a_peer_that_takes_ranges_slowly_is_not_idle(files: Files) -> None:
    async with staged(files) as stage:
        client = await stage.connect(limit=1)
        client.send(b"20")
        await stage.until_stopped()
        (connection,) = stage.server.connections
        for _ in range(40):
            await client.reader.read(1 << 19)
            await asyncio.sleep(0.001)
            stage.server.sweep()
        assert connection in stage.server.connections
        for _ in range(20):
            stage.server.sweep()
        await stage.until(lambda: not stage.server.connections)


@on_each_loop
@run_with(on_loop)
async def test_a_connection_full_of_requests_lets_others_go_first() -> None:
    script = Script()
    async with staged(script) as stage:
        greedy, good = await stage.connect(limit=1 << 20), await stage.connect()
        good.send(b"hello")
        assert await good.receive() == b"hello"
        greedy.send(*[b"more"] * 10_000)
        await stage.until(lambda: b"more" in script.seen)
        good.send(b"good")
        await stage.until(lambda: b"good" in script.seen)
        assert script.seen.index(b"good") < 9_000, "all of the others' requests were answered before"
        assert await receive_all(greedy, 10_000) == [b"more"] * 10_000
        assert await good.receive() == b"good"


@on_each_loop
@run_with(on_loop)
async def test_a_connection_in_line_is_not_read_and_holds_no_chunk() -> None:
    script = Script()
    async with staged(script) as stage:
        client = await stage.connect(limit=1 << 20)
        client.send(*[b"more"] * 20_000)
        await stage.until(lambda: len(stage.server.turns) == 1)
        (connection,) = stage.server.connections
        assert not connection.is_reading
        assert stage.server.memory.used_bytes <= READ_BYTES
        assert await receive_all(client, 20_000) == [b"more"] * 20_000
        await stage.until(lambda: stage.server.memory.used_bytes == 0)
        assert connection.is_reading


@on_each_loop
@run_with(on_loop)
async def test_a_connection_lost_in_line_is_forgotten() -> None:
    async with staged(Script()) as stage:
        client = await stage.connect()
        client.send(*[b"more"] * 20_000)
        await stage.until(lambda: len(stage.server.turns) == 1)
        (connection,) = stage.server.connections
        connection.abort()
        await stage.until(lambda: not stage.server.connections and not len(stage.server.turns))
        assert stage.server.memory.used_bytes == 0


@on_each_loop
@run_with(on_loop)
async def test_half_sent_frames_beyond_the_limit_wait_and_small_requests_do_not() -> None:
    megabyte = bytes(1 << 20)
    async with staged(Script(), memory=FrameMemory(3 << 20)) as stage:
        clients = [await stage.connect(limit=1 << 22) for _ in range(5)]
        for client in clients:
            client.writer.write(framed(megabyte)[:-1])
        await stage.until(lambda: stage.server.memory.waiting_count >= 2)
        assert stage.server.memory.used_bytes <= 3 << 20
        good = await stage.connect()
        good.send(b"good")
        assert await good.receive() == b"good"
        for client in clients:
            client.writer.write(b"\0")
        for client in clients:
            assert await client.receive() == megabyte
        await stage.until(lambda: stage.server.memory.used_bytes == 0)


@on_each_loop
@run_with(on_loop)
async def test_a_lost_connection_gives_back_what_its_unfinished_frame_held() -> None:
    async with staged(Script()) as stage:
        client = await stage.connect()
        client.writer.write(framed(bytes(1 << 20))[:-1])
        await stage.until(lambda: stage.server.memory.used_bytes > 1 << 20)
        (connection,) = stage.server.connections
        connection.abort()
        await stage.until(lambda: not stage.server.connections)
        assert stage.server.memory.used_bytes == 0
        assert connection.held_frame_bytes == 0, "though the test still refers to it"


@on_each_loop
@run_with(on_loop)
async def test_large_requests_without_a_response_count_until_they_have_one() -> None:
    script, memory = Script(), FrameMemory(2 * CHUNK_BYTES + 1)
    async with staged(script, memory=memory) as stage:
        client = await stage.connect(limit=1 << 22)
        payloads = [b"wait %d " % number + bytes(30_000) for number in range(6)]
        client.send(*payloads)
        await stage.until_stopped()
        assert memory.is_full
        assert 1 < len(script.seen) < 4
        for payload in payloads:
            await stage.until(lambda payload=payload: payload in script.waiting)  # type: ignore[misc]
            script.answer(payload)
            assert await client.receive() == payload
        await stage.until(lambda: memory.used_bytes == 0)


@run_with(real_time)
async def test_the_end_of_many_idle_connections_takes_no_memory() -> None:
    async with staged(Script()) as stage:
        connections = [ServerConnection(stage.server, number) for number in range(200)]
        # A loop asks for memory, reads the end of the stream into it and reports that instead of bytes.
        for connection in connections:
            connection.get_buffer(-1)
            connection.eof_received()
        assert sum(connection.held_frame_bytes for connection in connections) == 0


class SilentTransport(asyncio.Transport):
    """Takes everything and notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Accept any."""

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.written.extend(map(bytes, list_of_data))

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Read on: there is nothing to read."""


def received_by(server: Server, data: bytes) -> SilentTransport:
    """A connection that gets some bytes in the current turn of the loop."""
    connection, transport = ServerConnection(server, 1), SilentTransport()
    connection.connection_made(transport)
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))
    return transport


@run_with(real_time)
async def test_what_very_many_connections_send_at_once_takes_one_turn_of_the_loop() -> None:
    """Each request takes 1 ms here."""

    clock = ManualClock()

    def dispatch(_info: ConnectionInfo, frame: memoryview) -> Any:
        clock.ms += 1
        return [framed(bytes(frame))]

    server = Server(AsyncioNetwork(), dispatch, turns=Turns(clock))
    received_by(server, framed(b"more") * 200)
    begin_ms = clock.ms
    crowd = [received_by(server, framed(b"more") * 200) for _ in range(200)]
    assert clock.ms - begin_ms <= TURN_MS + CHECK_REQUESTS
    assert len(server.turns) == 201
    # Those who wait for their answers do not stand in line with them.
    assert received_by(server, framed(b"good")).written == [framed(b"good")]
    while len(server.turns):
        await asyncio.sleep(0)
    assert all(b"".join(transport.written) == framed(b"more") * 200 for transport in crowd)


@on_each_loop
@run_with(on_loop)
async def test_a_muted_connection_is_answered_and_not_read_until_its_time_is_over() -> None:
    script = Script()

    def mute_first(info: ConnectionInfo, frame: memoryview) -> Any:
        if bytes(frame) == b"large":
            info.mute(40)
            info.mute(10)  # the longer one counts
        return script(info, frame)

    async with staged(mute_first) as stage:
        client = await stage.connect()
        loop = asyncio.get_running_loop()
        client.send(b"large", b"next")
        began = loop.time()
        assert await client.receive() == b"large"
        assert script.seen == [b"large"]
        assert await client.receive() == b"next"
        assert loop.time() - began >= 0.03  # the clock of uvloop counts in milliseconds


@run_with(real_time)
async def test_a_muted_connection_that_ends_leaves_no_timer() -> None:
    muted: list[ConnectionInfo] = []

    def mute(info: ConnectionInfo, _frame: memoryview) -> Any:
        muted.append(info)
        info.mute(10_000_000)
        return [framed(b"x")]

    async with staged(mute) as stage:
        client = await stage.connect()
        client.send(b"large")
        await client.receive()
        (connection,) = stage.server.connections
        client.writer.close()
        connection.abort()
        await asyncio.sleep(0)
        connection.mute(10)  # too late
        gone = weakref.ref(connection)
        del connection
    assert gone() is None, "a cycle keeps it"
    muted[0].mute(10)
