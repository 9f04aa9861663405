"""Cuts the bytes of a connection into responses.

Unlike in the server's reusable frame buffer, every response becomes an object of its own, because callers keep slices
of it (fetched records) after the next bytes have arrived. A large response is received directly into its own memory,
which at most doubles with the received bytes.
"""

from __future__ import annotations

from crabka.errors import WireError
from crabka.ports import Buffer

LENGTH_BYTES = 4
CHUNK_BYTES = 64 * 1024
# Up to this size the memory of a response is allocated at once.
MAX_FIRST_BYTES = 16 * 1024 * 1024


class ResponseLengthError(WireError):
    """The length of a response is negative or beyond the limit."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(length, limit)
        self.length = length
        self.limit = limit

    def __str__(self) -> str:
        head = self.length.to_bytes(4, "big", signed=True)
        return (
            f"the response begins with {head!r}, which is no length up to {self.limit} bytes: "
            "is that a listener of a Kafka broker?"
        )


class ResponseBuffer:
    """Collects bytes until frames are complete, for asyncio.BufferedProtocol."""

    def __init__(self, max_response_bytes: int) -> None:
        self._max_response_bytes = max_response_bytes
        # Small responses, and the beginning of large ones.
        self._chunk = memoryview(b"")
        self._end = 0
        # The memory of a large response, its received bytes, and its length.
        self._frame: memoryview | None = None
        self._filled = 0
        self._length = 0

    def get_buffer(self) -> memoryview:
        """Return the memory for the next bytes; never empty."""
        if self._frame is not None:
            return self._frame[self._filled :]
        if not self._chunk:
            self._chunk = memoryview(bytearray(CHUNK_BYTES))
        return self._chunk[self._end :]

    def received(self, count: int) -> list[Buffer]:
        """Process new bytes in that memory and return the frames, without their length, that they complete.

        Raises ResponseLengthError.
        """
        if self._frame is None:
            self._end += count
            return self._take_small()
        self._filled += count
        if self._filled < len(self._frame):
            return []
        if self._filled < self._length:
            self._frame = _grown(self._frame, min(self._length, 2 * self._filled))
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def feed(self, data: bytes) -> list[Buffer]:
        """Copy bytes in and return the frames that they complete. Raises ResponseLengthError."""
        frames: list[Buffer] = []
        view = memoryview(data)
        while view:
            target = self.get_buffer()
            count = min(len(target), len(view))
            target[:count] = view[:count]
            view = view[count:]
            frames += self.received(count)
        return frames

    def _take_small(self) -> list[Buffer]:
        frames: list[Buffer] = []
        chunk, start, end = self._chunk, 0, self._end
        while end - start >= LENGTH_BYTES:
            length = self._checked_length(chunk[start : start + LENGTH_BYTES])
            body = start + LENGTH_BYTES
            if body + length > end:
                if LENGTH_BYTES + length > CHUNK_BYTES:
                    self._begin_large(chunk[body:end], length)
                    start = end
                break
            start = body + length
            frames.append(bytes(chunk[body:start]))
        if start:
            self._end = end - start
            chunk[: self._end] = chunk[start:end]
        return frames

    def _begin_large(self, beginning: memoryview, length: int) -> None:
        self._frame = _grown(beginning, min(length, MAX_FIRST_BYTES))
        self._filled = len(beginning)
        self._length = length

    def _checked_length(self, raw: memoryview) -> int:
        length = int.from_bytes(raw, "big", signed=True)
        if not 0 <= length <= self._max_response_bytes:
            raise ResponseLengthError(length, self._max_response_bytes)
        return length


def _grown(content: memoryview, size: int) -> memoryview:
    room = memoryview(bytearray(size))
    room[: len(content)] = content
    return room
