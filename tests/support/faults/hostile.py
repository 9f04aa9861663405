"""What hostile clients do to a node, and what a good client and the memory of the node make of it meanwhile.

An attack is any code that runs inside `under_watch`. Frames that only have to be sent once each come from
FRAME_SOURCES: a source that is added there is sent to a node like the others.
"""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from crabka.broker.api_table import SERVED
from crabka.protocol.headers import RequestHeader, pack_request
from crabka.protocol.schemas import message_class
from crabka.records.builder import build_batch
from crabka.records.record import Record
from tests.support.faults.bombs import MEBIBYTE, produce_frame, produced_error
from tests.support.nodes.process import wait_until
from tests.support.scale import soaking
from tests.support.wire.null_fields import null_bodies

if TYPE_CHECKING:
    from tests.support.nodes.process import NodeProcess

GOOD_TOPIC = "good"
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def connect(node: NodeProcess) -> socket.socket:
    """Return a fresh connection."""
    connection = socket.create_connection(("127.0.0.1", node.port), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_frame(connection: socket.socket) -> bytes:
    """Return the next response without its length. Raises ConnectionError at the end of the stream."""
    (length,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, length)


def _read(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionResetError("the node closed the connection")
        data += part
    return bytes(data)


def call(connection: socket.socket, frame: bytes) -> bytes:
    """Send a request and return its response."""
    connection.sendall(frame)
    return read_frame(connection)


def loop_cpu_seconds(node: NodeProcess) -> float:
    """Return what the first thread of a node, which runs its loop, has computed so far."""
    return int(Path(f"/proc/{node.pid}/task/{node.pid}/schedstat").read_text().split()[0]) / 1e9


class GoodClient:
    """Writes one record after the other, each when the one before it is acknowledged, and notes how long each took."""

    def __init__(self, node: NodeProcess, first_offset: int) -> None:
        self._node = node
        self._offset = first_offset
        self._thread = threading.Thread(target=self._run, name="good client")
        self._stop = threading.Event()
        self._began = time.perf_counter()
        self.waits_s: list[float] = []
        # What the thread of the node's loop computed during each wait. Unlike the wait it depends little on what else
        # the machine does.
        self.loop_cpu_s: list[float] = []
        self.failure: str | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> int:
        """End after the current record; return the next offset."""
        self._stop.set()
        self._thread.join()
        return self._offset

    @property
    def longest_wait_s(self) -> float:
        """The longest time that a record took, also one that is still under way."""
        under_way = time.perf_counter() - self._began if self._thread.is_alive() else 0.0
        return max([*self.waits_s, under_way])

    def await_rounds(self, count: int) -> None:
        """Wait until so many more records are acknowledged."""
        target = len(self.waits_s) + count
        wait_until(
            lambda: self.failure or len(self.waits_s) >= target, f"the good client wrote {count} more", timeout_s=120
        )
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            with connect(self._node) as connection:
                while not self._stop.is_set():
                    cpu_s = loop_cpu_seconds(self._node)
                    self._began = time.perf_counter()
                    self._write(connection)
                    self.waits_s.append(time.perf_counter() - self._began)
                    self.loop_cpu_s.append(loop_cpu_seconds(self._node) - cpu_s)
        except (OSError, AssertionError) as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _write(self, connection: socket.socket) -> None:
        value = b"%d" % self._offset
        batch = bytes(build_batch([Record(0, 1_700_000_000_000, None, value)]))
        response = call(connection, produce_frame(GOOD_TOPIC, batch))
        assert produced_error(GOOD_TOPIC, response) == 0
        (offset,) = struct.unpack_from(">q", response, 4 + 4 + 2 + len(GOOD_TOPIC) + 4 + 4 + 2)
        assert offset == self._offset
        self._offset += 1


@dataclass
class MemoryWatch:
    """Samples the resident memory of a node."""

    node: NodeProcess
    peak_bytes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def sample(self) -> int:
        """Return what the node has now."""
        now = int(psutil.Process(self.node.pid).memory_info().rss)
        self.peak_bytes = max(self.peak_bytes, now)
        return now

    def run(self) -> None:
        """Sample until `end`."""
        with contextlib.suppress(psutil.NoSuchProcess):
            while not self._stop.wait(0.01):
                self.sample()

    def end(self) -> None:
        """Stop sampling."""
        self._stop.set()


@dataclass
class Siege:
    """One node under attack, over several attacks."""

    node: NodeProcess
    base_bytes: int
    # As configured, see the formula in docs/operations/memory.md.
    queued_bytes: int
    frame_bytes: int
    message_bytes: int
    next_offset: int = 0
    reports: list[str] = field(default_factory=list)

    def memory_bound(self, connection_count: int = 0, silent_count: int = 0) -> int:
        """Return what the node may hold beside so many connections, some of which do not read their responses."""
        decompressed = 2 * max(64 * MEBIBYTE, 16 * self.message_bytes)
        connections = connection_count * 128 * 1024 + silent_count * 2 * MEBIBYTE
        return self.base_bytes + self.queued_bytes + self.frame_bytes + decompressed + connections + 32 * MEBIBYTE

    @contextlib.contextmanager
    def under_watch(self, label: str, connection_count: int = 0, silent_count: int = 0) -> Iterator[GoodClient]:
        """Run an attack beside a good client. Afterwards the node lives, serves, and stayed within its memory."""
        good, memory = GoodClient(self.node, self.next_offset), MemoryWatch(self.node)
        watching = threading.Thread(target=memory.run, name="memory watch")
        good.start()
        watching.start()
        try:
            good.await_rounds(5)
            yield good
            good.await_rounds(5)
        finally:
            self.next_offset = good.stop()
            memory.end()
            watching.join()
        bound = self.memory_bound(connection_count, silent_count)
        self.reports.append(
            f"{label}: good client's longest wait {good.longest_wait_s * 1000:.0f} ms of {len(good.waits_s)} records,"
            f" the loop computed at most {max(good.loop_cpu_s) * 1000:.0f} ms in one,"
            f" memory {memory.peak_bytes // MEBIBYTE} MiB of {bound // MEBIBYTE} MiB"
        )
        assert good.failure is None, good.failure
        assert self.node.is_alive(), self.node.last_output()
        assert memory.peak_bytes <= bound, self.reports[-1]
        allowed = self.memory_bound() - self.queued_bytes
        wait_until(lambda: memory.sample() <= allowed, f"the memory is back below {allowed // MEBIBYTE} MiB")


@contextlib.contextmanager
def many_descriptors() -> Iterator[None]:
    """Let this process open as many sockets as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Pipeliner:
    """Connections that send requests without end and read all responses, in a thread."""

    def __init__(self, node: NodeProcess, count: int, request: bytes = API_VERSIONS) -> None:
        self._data = request * 2000
        self._sockets = [connect(node) for _ in range(count)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeliner")
        self.received_bytes = 0

    def __enter__(self) -> Pipeliner:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for connection in self._sockets:
            connection.close()

    def _run(self) -> None:
        positions = dict.fromkeys(self._sockets, 0)
        with selectors.DefaultSelector() as selector:
            for connection in self._sockets:
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while not self._stop.is_set():
                for key, events in selector.select(0.1):
                    peer = key.fileobj
                    assert isinstance(peer, socket.socket)
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        if events & selectors.EVENT_READ:
                            self.received_bytes += len(peer.recv(1 << 18))
                        if events & selectors.EVENT_WRITE:
                            sent = peer.send(self._data[positions[peer] :])
                            positions[peer] = (positions[peer] + sent) % len(self._data)


def send_what_fits(connection: socket.socket, data: bytes) -> int:
    """Send until the node takes no more for a moment, or all is sent; return the number of bytes."""
    view, sent = memoryview(data), 0
    connection.settimeout(0.2)
    with contextlib.suppress(OSError):
        while sent < len(view):
            sent += connection.send(view[sent:])
    return sent


def null_frames() -> Iterator[bytes]:
    """Every API of a broker with null in each field that may not be null: one version, in a soak all."""
    for api_key in sorted(SERVED):
        spec = SERVED[api_key]
        versions = range(spec.min_version, spec.max_version + 1) if soaking() else (spec.max_version,)
        for version in versions:
            header = RequestHeader(int(api_key), version, 1, "hostile", 0)
            for _, body in null_bodies(message_class(api_key, version, "request")):
                yield pack_request(header, body)


# Name and frames, each with its length in front. All are sent by `test_frames_that_no_honest_peer_sends`.
FRAME_SOURCES: dict[str, Callable[[], Iterator[bytes]]] = {"null where none is allowed": null_frames}


def send_each(node: NodeProcess, frames: Iterator[bytes]) -> int:
    """Send each frame on a connection of its own and read until the node closes that; return how many."""
    count = 0
    for frame in frames:
        with connect(node) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        count += 1
    return count
