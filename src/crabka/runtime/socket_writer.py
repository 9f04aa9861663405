"""Writes to the socket of a transport directly, so that the kernel can take bytes from its page cache.

Transports copy: they know bytes, not files. A second descriptor of the same socket lets the loop wait for room in it
without the transport, because a loop refuses to watch a descriptor that belongs to one of its transports.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.ports import Buffer, FileRange, Threads

_MORE = socket.MSG_MORE if sys.platform == "linux" else 0


class SocketWriter:
    """The direct writer of one connection. Only for the thread of its loop."""

    __slots__ = ("_callback", "_loop", "_socket", "_threads", "_warmed", "_warming")

    def __init__(self, connected: socket.socket, threads: Threads | None) -> None:
        """Take over a non-blocking socket. Without threads a range that is not in memory makes the loop wait."""
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._threads = threads
        self._callback: Callable[[], None] | None = None
        # The range that was read ahead last: it is not read again, even if the memory is so short that it is lost.
        self._warmed: FileRange | None = None
        self._warming: asyncio.Future[None] | None = None

    def send(self, data: Buffer, *, more: bool) -> int:
        """Send what fits now and return its length; `more` says that other bytes follow at once."""
        try:
            return self._socket.send(data, _MORE if more else 0)
        except (BlockingIOError, InterruptedError):
            return 0

    def send_range(self, part: FileRange, start: int) -> int:
        """Send what fits now of a range from `start` on. Raises EOFError if the file is shorter than the range."""
        if self._threads is not None and part is not self._warmed and not part.in_memory(start):
            # The peer was slow and the page cache has forgotten: reading brings it back.
            self._warmed = part
            self._warming = self._threads.submit(part.warm, start)
            return 0
        try:
            return part.send_to(self._socket.fileno(), start)
        except (BlockingIOError, InterruptedError):
            return 0

    def call_when_ready(self, callback: Callable[[], None]) -> None:
        """Call once when the socket has room or the bytes to send are in memory, whatever was missing."""
        self._callback = callback
        if self._warming is not None:
            self._warming.add_done_callback(self._on_warm)
        else:
            self._loop.add_writer(self._socket.fileno(), self._on_room)

    def close(self) -> None:
        """Forget the callback and close the second descriptor."""
        if self._callback is not None:
            self._callback = None
            self._loop.remove_writer(self._socket.fileno())
        self._warmed = None
        self._socket.close()

    def _on_room(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        self._call_back()

    def _on_warm(self, warming: asyncio.Future[None]) -> None:
        self._warming = None
        if not warming.cancelled():
            # What failed here fails again where it is sent, and is reported there.
            warming.exception()
        self._call_back()

    def _call_back(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


def open_socket_writer(transport: asyncio.BaseTransport, threads: Threads | None) -> SocketWriter | None:
    """Return a writer for a transport of the running loop; None if it encrypts or has no socket to share."""
    owned = transport.get_extra_info("socket")
    if owned is None or transport.get_extra_info("sslcontext") is not None:
        return None
    try:
        # Both loops show a stand-in that has a number and little else.
        duplicate = socket.fromfd(owned.fileno(), owned.family, owned.type)
    except OSError:  # it is closed, or no descriptor is left; the transport can do without
        return None
    duplicate.settimeout(0)
    return SocketWriter(duplicate, threads)
