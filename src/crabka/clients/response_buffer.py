"""Cuts the bytes of a connection into responses.

Unlike the server's reusable frame buffer every response becomes an object of its own, because callers keep slices of
it (fetched records) long after the next bytes have come.
"""

from __future__ import annotations

from crabka.errors import WireError

LENGTH_BYTES = 4


class ResponseBuffer:
    """Collects bytes until whole frames are there."""

    def __init__(self, max_response_bytes: int) -> None:
        self._max_response_bytes = max_response_bytes
        self._pending = bytearray()
        self._expected: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames, without their length, that `data` completes.

        Raises WireError when a length is negative or beyond the limit.
        """
        self._pending += data
        frames: list[bytes] = []
        position = 0
        with memoryview(self._pending) as view:
            while True:
                if self._expected is None:
                    if len(view) - position < LENGTH_BYTES:
                        break
                    self._expected = self._checked_length(view[position : position + LENGTH_BYTES])
                    position += LENGTH_BYTES
                if len(view) - position < self._expected:
                    break
                frames.append(bytes(view[position : position + self._expected]))
                position += self._expected
                self._expected = None
        if position:
            del self._pending[:position]
        return frames

    def _checked_length(self, raw: memoryview) -> int:
        length = int.from_bytes(raw, "big", signed=True)
        if not 0 <= length <= self._max_response_bytes:
            raise WireError(f"a response of {length} bytes is not within 0..{self._max_response_bytes}")
        return length
