"""A server on the loopback with a scripted dispatcher, and blunt clients for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from crabka.net import ConnectionInfo, ConnectionLimits, Dispatch, Server
from crabka.net.descriptor_guard import DescriptorGuard
from crabka.net.frame_memory import FrameMemory
from crabka.net.turns import Turns
from crabka.runtime import AsyncioNetwork, SystemClock

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
PATIENCE_SECONDS = 120


def framed(payload: bytes) -> bytes:
    """Return a frame."""
    return len(payload).to_bytes(4, "big") + payload


def run_on(loop_name: str, main: Coroutine[Any, Any, None]) -> None:
    """Run a test on one kind of loop; a test that hangs fails."""
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(asyncio.wait_for(main, PATIENCE_SECONDS))


def on_loop(test: Callable[[], Coroutine[Any, Any, None]], loop_name: str) -> None:
    """Run a test function on the loop that the parameter of the test names."""
    run_on(loop_name, test())


class ManualClock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        """Return the time."""
        return self.ms

    def monotonic_ms(self) -> int:
        """Return the same."""
        return self.ms

    def processor_ns(self) -> int:
        return 0


class Script:
    """A dispatcher that echoes; payloads that start with `wait` are answered when the test says so."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.frames: list[memoryview] = []
        self.waiting: dict[bytes, asyncio.Future[Any]] = {}
        self.connections: set[ConnectionInfo] = set()

    def __call__(self, info: ConnectionInfo, frame: memoryview) -> Any:
        payload = bytes(frame)
        self.seen.append(payload)
        self.connections.add(info)
        if payload.startswith(b"wait"):
            self.frames.append(frame)
            future = asyncio.get_running_loop().create_future()
            self.waiting[payload] = future
            return future
        if payload.startswith(b"silent"):
            return None
        return [framed(payload)]

    def answer(self, payload: bytes) -> None:
        """Answer a waiting request with its own payload."""
        self.waiting.pop(payload).set_result([framed(payload)])


class Client:
    """A client that writes given bytes and reads whole frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *payloads: bytes) -> None:
        """Write frames in one piece."""
        self.writer.write(b"".join(map(framed, payloads)))

    async def receive(self) -> bytes:
        """Read the next frame. Raises IncompleteReadError at the end of the stream."""
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(length)

    async def wait_closed_by_peer(self) -> bytes:
        """Read to the end of the stream and return what came before it."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


class Stage:
    """A running server and its clients."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self._clients: list[Client] = []

    async def connect(self, **options: Any) -> Client:
        """Open one more connection."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, **options))
        self._clients.append(client)
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop run until the condition holds."""
        while not condition():
            await asyncio.sleep(0.001)

    async def until_stopped(self) -> None:
        """Let the loop run until the only connection is no longer read."""
        await self.until(lambda: len(self.server.connections) == 1)
        (connection,) = self.server.connections
        await self.until(lambda: not connection.is_reading)

    async def close_clients(self) -> None:
        """Close all connections from the client's side."""
        for client in self._clients:
            client.writer.close()
            try:
                await client.writer.wait_closed()
            except ConnectionError:
                continue


@asynccontextmanager
async def staged(
    dispatch: Dispatch,
    limits: ConnectionLimits | None = None,
    *,
    memory: FrameMemory | None = None,
    guard: DescriptorGuard | None = None,
) -> AsyncIterator[Stage]:
    """Start a server for a test and end everything after it."""
    server = Server(AsyncioNetwork(), dispatch, limits, turns=Turns(SystemClock()), memory=memory, guard=guard)
    listener = await server.listen("127.0.0.1", 0)
    stage = Stage(server, listener.port)
    try:
        yield stage
    finally:
        await stage.close_clients()
        await server.close(grace_ms=0)
