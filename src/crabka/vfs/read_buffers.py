"""Buffers for large reads, reused once no view of them is left.

A fetch reads up to a megabyte and hands it to a socket. Fresh memory of that size comes from the kernel as new pages
each time, and faulting them in costs more than the copy itself. So a reader gets a view of a buffer that stays: as
long as a view of it lives, in a response or in a transport, the buffer cannot change its length, and that is how the
pool knows that it is in use. No explicit return is needed.
"""

from __future__ import annotations

from typing import Final

BUFFER_BYTES: Final = 1 << 20
MAX_BUFFERS: Final = 16


class ReadBuffers:
    """At most `MAX_BUFFERS` buffers; safe to use from several threads."""

    __slots__ = ("_buffers", "_made_count")

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []
        self._made_count = 0

    def take(self) -> bytearray | None:
        """Return a buffer without views, None if all are in use. The caller returns it by `put` at once."""
        buffers = self._buffers
        for _ in range(len(buffers)):
            # pop and insert are atomic: two threads never hold the same buffer.
            try:
                buffer = buffers.pop()
            except IndexError:
                break
            if _is_unused(buffer):
                return buffer
            buffers.insert(0, buffer)
        if self._made_count < MAX_BUFFERS:
            self._made_count += 1
            return bytearray(BUFFER_BYTES)
        return None

    def put(self, buffer: bytearray) -> None:
        """Keep a buffer for the next reader; views of it may live on."""
        self._buffers.append(buffer)


def _is_unused(buffer: bytearray) -> bool:
    """Return whether no view of the buffer exists: only then can its length change."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
