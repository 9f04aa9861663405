"""Cuts a stream of bytes into frames without copying them.

A frame is a 32-bit big-endian length and that many bytes. A `FrameBuffer` holds memory only while bytes are in it:
it borrows a chunk from a shared pool when the socket has something to read and gives it back when all frames are
taken, so that thousands of idle connections cost nothing. A small incomplete frame is parked in memory of its own
size; a frame larger than a chunk gets a private buffer that doubles as bytes arrive, never ahead of them by more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crabka.errors import WireError

CHUNK_BYTES = 256 * 1024
POOLED_CHUNKS = 4
# An incomplete frame of at most this size moves out, so that a peer cannot hold a chunk with a few bytes.
PARK_BYTES = CHUNK_BYTES // 4
DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024  # socket.request.max.bytes

_LENGTH_BYTES = 4
_unpack_length = struct.Struct(">i").unpack_from
_NOTHING = memoryview(b"")


class ChunkPool:
    """A few chunks that frame buffers take turns to use."""

    __slots__ = ("_chunks", "_limit")

    def __init__(self, limit: int = POOLED_CHUNKS) -> None:
        self._chunks: list[memoryview] = []
        self._limit = limit

    def take(self) -> memoryview:
        """Return a chunk that nobody else uses. Its content is arbitrary."""
        return self._chunks.pop() if self._chunks else memoryview(bytearray(CHUNK_BYTES))

    def give_back(self, chunk: memoryview) -> None:
        """Accept a chunk that the caller will not touch again."""
        if len(self._chunks) < self._limit:
            self._chunks.append(chunk)


_shared_pool = ChunkPool()


class FrameBuffer:
    """Receives bytes and hands out frames, in the terms of asyncio.BufferedProtocol.

    A frame is a read-only view that is valid until `next_frame` has returned None and the next `get_buffer` call;
    `retain` extends that for as long as the view exists.
    """

    __slots__ = (
        "_buffer",
        "_end",
        "_frames",
        "_is_chunk",
        "_parked",
        "_pool",
        "_retained",
        "_start",
        "max_frame_bytes",
    )

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES, pool: ChunkPool | None = None) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._pool = pool or _shared_pool
        self._buffer: memoryview | None = None
        self._frames = _NOTHING  # the same memory, read-only
        self._is_chunk = False
        self._retained = False
        self._parked = b""
        self._start = 0  # first byte that is not part of a frame handed out
        self._end = 0  # first byte not received yet

    @property
    def pending_bytes(self) -> int:
        """Bytes received that no frame handed out contains."""
        return self._end - self._start + len(self._parked)

    @property
    def held_bytes(self) -> int:
        """Bytes of memory in use."""
        return len(self._parked) + (0 if self._buffer is None else len(self._buffer))

    def get_buffer(self, _size_hint: int = -1) -> memoryview:
        """Return the memory that the next bytes go to; never empty."""
        buffer = self._buffer
        if buffer is None:
            buffer = self._pool.take()
            self._use(buffer, is_chunk=True)
            if self._parked:
                self._end = len(self._parked)
                buffer[: self._end] = self._parked
                self._parked = b""
                return buffer[self._end :]
            return buffer
        if self._end == len(buffer):
            buffer = self._make_room(buffer)
        return buffer[self._end :]

    def buffer_updated(self, count: int) -> Iterator[memoryview]:
        """Take note of `count` new bytes and return the frames that are complete now. Raises WireError.

        The iterator may be abandoned; `next_frame` or `frames` go on where it stopped.
        """
        self._end += count
        return self.frames()

    def received(self, count: int) -> None:
        """Take note of `count` new bytes."""
        self._end += count

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[memoryview]:
        """Copy bytes in and yield the frames that they complete. Raises WireError."""
        view = memoryview(data)
        while view:
            target = self.get_buffer()
            count = min(len(target), len(view))
            target[:count] = view[:count]
            view = view[count:]
            yield from self.buffer_updated(count)

    def frames(self) -> Iterator[memoryview]:
        """Yield all complete frames. Raises WireError."""
        while (frame := self.next_frame()) is not None:
            yield frame

    def next_frame(self) -> memoryview | None:
        """Return the next complete frame without its length, or None. Raises WireError on an illegal length."""
        start = self._start
        body = start + _LENGTH_BYTES
        if body <= self._end:
            (length,) = _unpack_length(self._frames, start)
            if not 0 <= length <= self.max_frame_bytes:
                raise WireError(f"a frame claims {length} bytes, the limit is {self.max_frame_bytes}")
            end: int = body + length
            if end <= self._end:
                self._start = end
                return self._frames[body:end]
        self._settle()
        return None

    def retain(self) -> int:
        """Keep the memory of all frames handed out so far as long as their views live; return its size.

        To be called before `next_frame` returns None.
        """
        if self._buffer is None:
            return 0
        self._retained = True
        return len(self._buffer)

    def _settle(self) -> None:
        """Give memory up that holds no incomplete frame, or only a small one."""
        buffer = self._buffer
        remaining = self._end - self._start
        if buffer is None or remaining > PARK_BYTES:
            return
        if remaining:
            self._parked = buffer[self._start : self._end].tobytes()
        self._drop(buffer)

    def _drop(self, buffer: memoryview) -> None:
        if self._is_chunk and not self._retained:
            self._pool.give_back(buffer)
        self._buffer = None
        self._frames = _NOTHING
        self._retained = False
        self._start = self._end = 0

    def _make_room(self, buffer: memoryview) -> memoryview:
        """Move the incomplete frame to the front of memory that has room for more of it."""
        pending = buffer[self._start : self._end]
        wanted = _LENGTH_BYTES
        if len(pending) >= _LENGTH_BYTES:
            wanted += _unpack_length(pending)[0]
        # Whole frames may be pending here, when the reader of frames stopped early: then more than a frame is wanted.
        wanted = max(wanted, len(pending) + PARK_BYTES)
        is_chunk = wanted <= CHUNK_BYTES
        room = self._pool.take() if is_chunk else memoryview(bytearray(min(wanted, 2 * len(buffer))))
        room[: len(pending)] = pending
        self._drop(buffer)
        self._use(room, is_chunk=is_chunk)
        self._end = len(pending)
        return room

    def _use(self, buffer: memoryview, *, is_chunk: bool) -> None:
        self._buffer = buffer
        self._frames = buffer.toreadonly()
        self._is_chunk = is_chunk
