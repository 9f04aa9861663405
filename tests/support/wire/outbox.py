"""A transport and a direct writer that take as many bytes as a test allows, and say in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from crabka.net.outbox import Outbox
from crabka.ports import Buffer, DirectWriter, FileRange
from crabka.testing import MemoryFileSystem


class FakeTransport(asyncio.Transport):
    """Keeps what it is given until `flush`, as a transport does whose socket is full."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = bytearray()
        self.buffered = bytearray()
        self.aborted = False

    def write(self, data: Any) -> None:
        self.buffered += data

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.buffered += b"".join(list_of_data)

    def get_write_buffer_size(self) -> int:
        return len(self.buffered)

    def abort(self) -> None:
        self.aborted = True

    def flush(self) -> None:
        """Send everything."""
        self.taken += self.buffered
        self.buffered.clear()


class FakeWriter:
    """Takes bytes into `taken` of its transport while there is room."""

    def __init__(self, transport: FakeTransport) -> None:
        self._transport = transport
        self.room = 0
        self.error: OSError | None = None
        self.callback: Callable[[], None] | None = None
        self.more: list[bool] = []
        self.closed = False

    def send(self, data: Buffer, *, more: bool) -> int:
        self.more.append(more)
        return self._take(bytes(data))

    def send_range(self, part: FileRange, start: int) -> int:
        # The file is asked for the range as it is now.
        data = part.file.pread(part.length - start, part.position + start)
        if not data:
            raise EOFError("the file is shorter")
        return self._take(data)

    def call_when_ready(self, callback: Callable[[], None]) -> None:
        assert self.callback is None
        self.callback = callback

    def close(self) -> None:
        self.closed = True
        self.callback = None

    def call(self, room: int) -> None:
        """Make room and call back, if a caller waits."""
        self.room += room
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()

    def _take(self, data: bytes) -> int:
        assert not self._transport.buffered, "the transport was overtaken"
        if self.error is not None:
            raise self.error
        count = min(len(data), self.room)
        self.room -= count
        self._transport.taken += data[:count]
        return count


class Desk:
    """An outbox with its surroundings; also its network and its connection."""

    def __init__(self, *, direct: bool = True) -> None:
        self.transport = FakeTransport()
        self.writer = FakeWriter(self.transport)
        self.calls: list[str] = []
        self._direct = direct
        self._fs = MemoryFileSystem()
        self.outbox = Outbox(self, self.transport, self)  # type: ignore[arg-type] # of the network one method is used

    def direct_writer(self, transport: asyncio.BaseTransport) -> DirectWriter | None:
        assert transport is self.transport
        return self.writer if self._direct else None

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def make_range(self, data: bytes, *, position: int = 3) -> FileRange:
        """A range of a fresh file that holds more than the range."""
        file = self._fs.open(f"/{len(self._fs.listdir('/'))}", create=True)
        file.pwritev([b"?" * position + data + b"?"], 0)
        return FileRange(file, position, len(data), self)
