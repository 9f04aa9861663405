"""Cuts a stream of bytes into frames without copying them.

A frame is a 32-bit big-endian length and that many bytes. A `FrameBuffer` holds memory only while bytes are in it:
it takes a chunk from a shared pool when bytes have arrived and gives it back when all frames are taken, so that
thousands of connections that are idle, or that end all at once, cost nothing. A small incomplete frame is parked in
memory of its own size; a frame larger than a chunk gets a private buffer that doubles as bytes arrive, never ahead of
them by more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from crabka.errors import WireError

CHUNK_BYTES = 256 * 1024
POOLED_CHUNKS = 4
# An incomplete frame of at most this size moves out, so that a peer cannot hold a chunk with a few bytes.
PARK_BYTES = CHUNK_BYTES // 4
# What is read at a time while no frame is incomplete: a peer that sends more requests than are answered holds no more.
# A little more than what is parked, so that the beginning of a large frame is not moved.
READ_BYTES = PARK_BYTES + 4096
DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024  # socket.request.max.bytes

_LENGTH_BYTES = 4
# The first bytes of a TLS record, an alert or a handshake of any version, read as the length of a frame.
_TLS_RECORD_HEADS = frozenset((0x1503, 0x1603))
_unpack_length = struct.Struct(">i").unpack_from
_NOTHING = memoryview(b"")


class ChunkPool:
    """A few chunks that frame buffers take turns to use."""

    __slots__ = ("_chunks", "_limit", "read_bytes")

    def __init__(self, limit: int = POOLED_CHUNKS) -> None:
        self._chunks: list[memoryview] = []
        self._limit = limit
        self.read_bytes = READ_BYTES

    def next_chunk(self) -> memoryview:
        """Return the chunk that the next `take` returns; until then any buffer may write to it."""
        if not self._chunks:
            self._chunks.append(memoryview(bytearray(CHUNK_BYTES)))
        return self._chunks[-1]

    def take(self) -> memoryview:
        """Return an unused chunk. Its content is arbitrary."""
        return self._chunks.pop() if self._chunks else memoryview(bytearray(CHUNK_BYTES))

    def give_back(self, chunk: memoryview) -> None:
        """Accept a chunk that the caller will not touch again."""
        if len(self._chunks) < self._limit:
            self._chunks.append(chunk)


class FrameBuffer:
    """Receives bytes and hands out frames, in the terms of asyncio.BufferedProtocol.

    A frame is a read-only view that is valid until `next_frame` has returned None and the next `get_buffer` call;
    `retain` extends that for as long as the view exists.

    Bytes must be reported before any buffer of the same pool is asked for memory again, as event loops do: each reads
    and reports in one step. A read that finds the end of a stream, or nothing, then takes no memory.
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
        self._pool = pool or ChunkPool()
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
            chunk = self._pool.next_chunk()
            parked = self._parked
            if not parked:
                return chunk[: self._pool.read_bytes]
            chunk[: len(parked)] = parked
            return chunk[len(parked) :]
        if self._end == len(buffer):
            buffer = self._make_room(buffer)
        return buffer[self._end :]

    def buffer_updated(self, count: int) -> Iterator[memoryview]:
        """Take note of `count` new bytes and return the frames that are complete now. Raises WireError.

        The iterator may be abandoned; `next_frame` or `frames` go on where it stopped.
        """
        self.received(count)
        return self.frames()

    def received(self, count: int) -> None:
        """Take note of `count` new bytes."""
        if self._buffer is None:
            self._use(self._pool.take(), is_chunk=True)
            count += len(self._parked)
            self._parked = b""
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
                if length >> 16 in _TLS_RECORD_HEADS:
                    raise WireError("it speaks TLS, and the listener is without TLS")
                raise WireError(f"a frame claims {length} bytes, the limit is {self.max_frame_bytes}")
            end: int = body + length
            if end <= self._end:
                self._start = end
                return self._frames[body:end]
        self._settle()
        return None

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` returns a frame, or raises."""
        body = self._start + _LENGTH_BYTES
        if body > self._end:
            return False
        (length,) = _unpack_length(self._frames, self._start)
        return bool(length <= self._end - body or length > self.max_frame_bytes)

    def has_more_than(self, count: int) -> bool:
        """Return whether more than `count` whole frames wait to be taken, as far as their lengths are legal."""
        start = self._start
        for _ in range(count + 1):
            body = start + _LENGTH_BYTES
            if body > self._end:
                return False
            length = int(_unpack_length(self._frames, start)[0])
            if not 0 <= length <= self._end - body:
                return False
            start = body + length
        return True

    @property
    def is_empty(self) -> bool:
        """Whether no memory is in use."""
        return self._buffer is None and not self._parked

    @property
    def wanted_bytes(self) -> int:
        """Bytes of memory that the incomplete frame needs in all; what it holds, as long as it is parked."""
        buffer = self._buffer
        if buffer is None or self._end - self._start < _LENGTH_BYTES:
            return self.held_bytes
        return max(len(buffer), _LENGTH_BYTES + int(_unpack_length(self._frames, self._start)[0]))

    def shrink(self) -> None:
        """Give the chunk back although frames are in it: what is left moves to memory of its own size."""
        buffer = self._buffer
        if buffer is None or not self._is_chunk:
            return
        rest = memoryview(bytearray(buffer[self._start : self._end]))
        self._drop(buffer)
        self._use(rest, is_chunk=False)
        self._end = len(rest)

    def close(self) -> None:
        """Give all memory up with what is in it."""
        self._parked = b""
        if self._buffer is not None:
            self._drop(self._buffer)

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
