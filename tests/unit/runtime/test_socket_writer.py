from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crabka.ports import FileRange
from crabka.runtime.socket_writer import SocketWriter, open_socket_writer
from crabka.testing import InlineThreads
from crabka.vfs import OsFile, OsFileSystem
from tests.support.async_tests import real_time, run_with
from tests.support.wire.net import LOOPS, run_on

on_each_loop = pytest.mark.parametrize("loop_name", list(LOOPS))
CONTENT = os.urandom(1 << 20) * 4


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OsFile]:
    opened = OsFileSystem().open(f"{tmp_path}/log", create=True)
    opened.pwritev([CONTENT], 0)
    yield opened
    opened.close()


class Ends:
    """A writer on one end of a connection that belongs to a transport, and the other end."""

    def __init__(self, transport: asyncio.Transport, writer: SocketWriter, peer: socket.socket) -> None:
        self.transport = transport
        self.writer = writer
        self.peer = peer
        self._loop = asyncio.get_running_loop()

    async def wait_ready(self) -> None:
        ready = self._loop.create_future()
        self.writer.call_when_ready(lambda: ready.set_result(None))
        await ready

    async def receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size and (data := await self._loop.sock_recv(self.peer, 1 << 20)):
            received += data
        return bytes(received)


async def with_ends(use: Callable[[Ends], Any], *, with_threads: bool = False) -> None:
    loop = asyncio.get_running_loop()
    threads = InlineThreads(loop) if with_threads else None
    ours, peer = socket.socketpair()
    peer.setblocking(False)
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    writer = open_socket_writer(transport, threads)
    assert writer is not None
    try:
        await use(Ends(transport, writer, peer))
    finally:
        writer.close()
        transport.abort()
        peer.close()
        await asyncio.sleep(0.01)


@on_each_loop
def test_bytes_and_ranges_arrive_in_order_however_slowly_the_peer_reads(loop_name: str, file: OsFile) -> None:
    part = FileRange(file, 5, len(CONTENT) - 9, None)

    async def use(ends: Ends) -> None:
        receiving = asyncio.ensure_future(ends.receive(4 + len(part)))
        assert ends.writer.send(b"head", more=True) == 4
        sent = waits = 0
        while sent < len(part):
            count = ends.writer.send_range(part, sent)
            sent += count
            if not count:
                waits += 1
                await ends.wait_ready()
        assert waits > 0
        assert await receiving == b"head" + CONTENT[5:-4]

    run_on(loop_name, with_ends(use))


@on_each_loop
def test_a_full_socket_takes_nothing(loop_name: str, file: OsFile) -> None:
    async def use(ends: Ends) -> None:
        while ends.writer.send(CONTENT, more=False):
            continue
        assert ends.writer.send_range(FileRange(file, 0, 100, None), 0) == 0
        called: list[bool] = []
        ends.writer.call_when_ready(lambda: called.append(True))
        await asyncio.sleep(0.01)
        assert not called
        ends.writer.close()  # forgets the callback
        await ends.receive(1 << 16)
        await asyncio.sleep(0.01)
        assert not called

    run_on(loop_name, with_ends(use))


@on_each_loop
def test_a_range_after_the_end_of_its_file_is_an_error(loop_name: str, file: OsFile) -> None:
    async def use(ends: Ends) -> None:
        part = FileRange(file, len(CONTENT) - 10, 20, None)
        assert ends.writer.send_range(part, 0) == 10
        with pytest.raises(EOFError, match="ends before"):
            ends.writer.send_range(part, 10)

    run_on(loop_name, with_ends(use))


@on_each_loop
def test_a_connection_that_the_peer_closed_is_an_error(loop_name: str, file: OsFile) -> None:
    async def use(ends: Ends) -> None:
        ends.peer.close()
        with pytest.raises(ConnectionError):
            ends.writer.send_range(FileRange(file, 0, 100, None), 0)

    run_on(loop_name, with_ends(use))


class ForgetfulFile:
    """A file of which the page cache forgets everything; counts what is read to bring it back."""

    path = "/forgetful"

    def __init__(self, file: OsFile) -> None:
        self._file = file
        self.reads = 0

    def in_memory(self, _length: int, _position: int) -> bool:
        return False

    def pread(self, length: int, position: int) -> bytes:
        self.reads += 1
        return self._file.pread(length, position)

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        return self._file.send_to(descriptor, length, position)


@on_each_loop
def test_a_range_that_is_no_longer_in_memory_is_read_in_a_thread_first(loop_name: str, file: OsFile) -> None:
    async def use(ends: Ends) -> None:
        forgetful = ForgetfulFile(file)
        part = FileRange(forgetful, 3, 1000, None)  # type: ignore[arg-type] # the methods that a range needs
        assert ends.writer.send_range(part, 0) == 0
        await ends.wait_ready()
        # Forgotten again already, but a second read would help no more than the first.
        assert ends.writer.send_range(part, 0) == 1000
        assert forgetful.reads == 1
        assert await ends.receive(1000) == CONTENT[3:1003]

    run_on(loop_name, with_ends(use, with_threads=True))


def test_a_writer_that_is_closed_while_a_thread_reads_makes_no_call(file: OsFile) -> None:
    async def use(ends: Ends) -> None:
        part = FileRange(ForgetfulFile(file), 0, 1000, None)  # type: ignore[arg-type] # the methods that a range needs
        assert ends.writer.send_range(part, 0) == 0
        called: list[bool] = []
        ends.writer.call_when_ready(lambda: called.append(True))
        ends.writer.close()
        await asyncio.sleep(0.01)
        assert not called

    run_on("uvloop", with_ends(use, with_threads=True))


@run_with(real_time)
async def test_a_transport_without_a_socket_or_with_encryption_has_no_writer() -> None:
    assert open_socket_writer(asyncio.Transport(), None) is None
    ours, peer = socket.socketpair()
    with ours, peer:
        assert open_socket_writer(asyncio.Transport({"socket": ours, "sslcontext": object()}), None) is None
    # Closed meanwhile: nothing to share.
    assert open_socket_writer(asyncio.Transport({"socket": ours}), None) is None
