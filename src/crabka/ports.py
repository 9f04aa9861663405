"""Ports: everything a node needs from outside, as small protocols.

Node code receives these objects and never reaches for `time`, `random`, `os` or sockets itself, so that the
same code runs on the real machine and in the simulation. The real implementations live in `crabka.runtime` and
`crabka.vfs`, the simulated ones in `crabka.testing`.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    import ssl

P = ParamSpec("P")
T = TypeVar("T")

Buffer = bytes | bytearray | memoryview
# Runs a coroutine as a task of an owner, so that no task outlives it.
Spawn = Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]]

_WARM_BYTES = 1 << 20


class Clock(Protocol):
    """Wall clock and monotonic clock of a node."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back; only differences have a meaning."""
        ...

    def processor_ns(self) -> int:
        """Return how long the calling thread has used a processor; only differences have a meaning."""
        ...


class Threads(Protocol):
    """A bounded pool for work that would stall the loop: fsync, cold reads, compression, uploads."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` off the loop; the future is resolved on the loop that called."""
        ...

    async def wait_submitted(self) -> None:
        """Wait until all jobs that were submitted before have ended, also those that were cancelled while they ran.

        To cancel a future stops no thread: who gives files away that jobs work on waits for this first.
        """
        ...

    def close(self, *, wait: bool = True) -> None:
        """Refuse more work and wait for what was submitted; without `wait`, do not wait for it."""
        ...


class FileStat(NamedTuple):
    """What a log needs to know of a path."""

    size_bytes: int
    modified_ms: int
    is_dir: bool


class DiskUsage(NamedTuple):
    """Total and usable bytes of the file system below a path."""

    total_bytes: int
    free_bytes: int


class File(Protocol):
    """An open file, addressed by position. All errors are OSError, as from the operating system."""

    path: str

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers at `position`; short writes are completed. Return the bytes written."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file. May block on the disk."""
        ...

    def pread_nowait(self, length: int, position: int) -> Buffer | None:
        """Like pread if the bytes are in memory, else None: the caller then reads in a thread.

        The bytes stay as they are for as long as the caller keeps them.
        """
        ...

    def in_memory(self, length: int, position: int) -> bool:
        """Return whether the bytes are known to be in memory, so that `send_to` does not wait for the disk."""
        ...

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        """Hand bytes to a non-blocking socket without a copy in this process. Return how many it took.

        0 means that the file ends before `position`. Raises BlockingIOError if the socket has no room.
        """
        ...

    def begin_writeback(self, length: int, position: int) -> None:
        """Let the disk begin to write bytes that are in memory only. A hint: nothing is durable by it."""
        ...

    def copy_from(self, source: File, length: int, position: int) -> int:
        """Copy bytes of another file to the same position here, inside the kernel where that is possible.

        Return how many, fewer only at the end of the source. One at a time for a file. May block on the disk. An
        OSError does not say which of the two failed.
        """
        ...

    def size(self) -> int:
        """Return the current length of the file in bytes."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or zero-extend the file to `size` bytes."""
        ...

    def fsync(self) -> None:
        """Make content and length durable. Only this and FileSystem.fsync_dir make anything durable."""
        ...

    def close(self) -> None:
        """Close the handle; closing twice is allowed."""
        ...


class FileSystem(Protocol):
    """Paths are strings with '/' separators. Names become durable only by fsync_dir of their directory."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False, exclusive: bool = False) -> File:
        """Open a file for reading and writing; `create` makes it if absent, `exclusive` only if absent."""
        ...

    def stat(self, path: str) -> FileStat:
        """Return size, time of last change and kind. Raises FileNotFoundError."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        ...

    def makedirs(self, path: str) -> None:
        """Create a directory with its parents; it may exist already."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Move a file or directory in one step; a file at `new` is replaced."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""
        ...

    def rmdir(self, path: str) -> None:
        """Remove a directory that is empty. Raises FileNotFoundError, OSError with ENOTEMPTY if it is not."""
        ...

    def rmtree(self, path: str) -> None:
        """Remove a directory with all its content."""
        ...

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def disk_usage(self, path: str) -> DiskUsage:
        """Return size and free space of the file system that holds `path`."""
        ...

    def lock(self, path: str) -> File:
        """Take an exclusive lock on a file, held until close. Raises BlockingIOError if another holds it."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FileRange:
    """Bytes of a file that are sent as they lie there; a part of a response, among buffers.

    They are read when the peer takes them, so they may not change before: a log only grows, and what it removes
    lives on while `holder` does.
    """

    file: File
    position: int
    length: int
    holder: object  # keeps the file open

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """Return the bytes; may wait for the disk. Raises OSError, EOFError if the file is shorter by now."""
        data = self.file.pread(self.length, self.position)
        if len(data) < self.length:
            raise EOFError(f"{self.file.path} ends before {self.position + self.length}")
        return data

    def warm(self, start: int) -> None:
        """Read the bytes from `start` on in pieces, just to have them in memory; waits for the disk. Raises OSError."""
        for offset in range(start, self.length, _WARM_BYTES):
            self.file.pread(min(_WARM_BYTES, self.length - offset), self.position + offset)

    def in_memory(self, start: int) -> bool:
        """Return whether the bytes from `start` on are in memory."""
        return self.file.in_memory(self.length - start, self.position + start)

    def send_to(self, descriptor: int, start: int) -> int:
        """Hand bytes from `start` on to a socket, as File.send_to does. Raises EOFError if the file ends before."""
        count = self.file.send_to(descriptor, self.length - start, self.position + start)
        if not count:
            raise EOFError(f"{self.file.path} ends before {self.position + self.length}")
        return count


Payload = Buffer | FileRange


class Listener(Protocol):
    """A bound listening socket."""

    host: str
    port: int

    def close(self) -> None:
        """Stop accepting; connections that exist live on."""
        ...


class DirectWriter(Protocol):
    """Writes to a connection's socket past its transport; to be used only while the transport has nothing to write.

    Raises OSError when the connection is broken.
    """

    def send(self, data: Buffer, *, more: bool) -> int:
        """Send what fits now and return its length; `more` says that other bytes follow at once."""
        ...

    def send_range(self, part: FileRange, start: int) -> int:
        """Send what fits now of a range from `start` on. Raises EOFError if the file is shorter than the range."""
        ...

    def call_when_ready(self, callback: Callable[[], None]) -> None:
        """Call once, in a later turn of the loop, when it makes sense to go on after something did not fit."""
        ...

    def close(self) -> None:
        """Forget the callback and let go of the socket, which the transport still owns."""
        ...


@dataclass(frozen=True, slots=True)
class TlsAcceptance:
    """How connections to a listener begin with TLS."""

    # Asked for each connection, so that certificates can be replaced.
    context: Callable[[], ssl.SSLContext]
    # Called with the peer's address and the error of a handshake that failed.
    on_failure: Callable[[str, OSError], None]
    handshake_timeout_s: float = 10.0
    # When there are more, the oldest one ends.
    max_handshakes: int = 512


class Network(Protocol):
    """Byte streams between nodes, in asyncio's own terms: transports and (buffered) protocols."""

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        tls: TlsAcceptance | None = None,
    ) -> Listener:
        """Accept connections on host:port (port 0 picks a free one), maybe with TLS. Raises OSError."""
        ...

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection, with a context through TLS to the server named `host`.

        Raises OSError: ConnectionRefusedError without a listener, ssl.SSLError when there is no TLS to be had.
        """
        ...

    def direct_writer(self, transport: asyncio.BaseTransport) -> DirectWriter | None:
        """Return a writer for a connection of this network, None if it can only be written through its transport."""
        ...


class Failpoints(Protocol):
    """Named places in the code where a test may end the process or raise; elsewhere they do nothing."""

    def hit(self, name: str) -> None:
        """Say that the place is reached."""
        ...


class NoFailpoints:
    """Nothing happens anywhere."""

    __slots__ = ()

    def hit(self, name: str) -> None:
        """Go on."""


class SharedThreads:
    """A pool that uses another one's threads and leaves them alone when it is closed."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Run `fn` in the other pool. Raises RuntimeError after close."""
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        return self._threads.submit(fn, *args, **kwargs)

    async def wait_submitted(self) -> None:
        """Wait for what the other pool was given before."""
        await self._threads.wait_submitted()

    def close(self, *, wait: bool = True) -> None:  # noqa: ARG002 - what runs belongs to the other pool
        """Refuse more work."""
        self._closed = True


@dataclass(frozen=True, slots=True)
class Runtime:
    """The ports of one node, handed down from its entry point."""

    clock: Clock
    rng: random.Random
    threads: Threads
    fs: FileSystem
    network: Network
    # Makes a pool of so many threads with a name; where there is none, as in the simulation, `threads` serve all.
    make_pool: Callable[[int, str], Threads] | None = None
    failpoints: Failpoints = field(default_factory=NoFailpoints)
    # How many files and sockets the process may have open; None where nothing limits them.
    open_file_limit: int | None = None
    # Makes many files durable at once and returns what went wrong with each; None where one after the other will do.
    sync_together: Callable[[Sequence[File]], list[OSError | None]] | None = None

    def new_pool(self, size: int, name: str) -> Threads:
        """Return a pool for work that may take so long that it must not use up `threads`; the caller closes it."""
        return SharedThreads(self.threads) if self.make_pool is None else self.make_pool(size, name)

    def new_uuid(self) -> uuid.UUID:
        """Return a random version 4 UUID drawn from the node's own generator."""
        return uuid.UUID(int=self.rng.getrandbits(128), version=4)
