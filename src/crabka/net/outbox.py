"""The way out of a connection: buffers go through its transport, ranges of files past it.

Owns the order of what leaves. A response with ranges is written directly to the socket, as soon as the transport has
written what came before; the page cache is its buffer, so a peer that does not read costs no memory. While something
waits, whatever comes later waits behind it, and the protocol is paused as by a transport that is full.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol, cast

from crabka.ports import Buffer, DirectWriter, FileRange, Network, Payload

logger = logging.getLogger(__name__)

# A peer that reads as fast as we send gets so much before others have their turn.
TURN_BYTES = 4 * 1024 * 1024


class FlowControl(Protocol):
    """Notifications of an outbox to its connection, named as in asyncio's protocols."""

    def pause_writing(self) -> None:
        """Stop writing: something waits."""
        ...

    def resume_writing(self) -> None:
        """Go on: everything has left."""
        ...


class Outbox:
    """Writes payloads to one connection, in order."""

    __slots__ = ("_flow", "_is_open", "_network", "_paused", "_sent_bytes", "_transport", "_waiting", "_writer")

    def __init__(self, network: Network, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._network = network
        self._transport = transport
        self._flow = flow
        self._is_open = True
        self._waiting: deque[Payload] = deque()
        self._sent_bytes = 0  # of the first that waits
        self._paused = False
        self._writer: DirectWriter | None = None

    @property
    def is_waiting(self) -> bool:
        """True while a response with ranges has not left wholly."""
        return bool(self._waiting)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were written and have not left, here and in the transport."""
        return sum(map(len, self._waiting)) - self._sent_bytes + self._transport.get_write_buffer_size()

    def write(self, payloads: Sequence[Payload]) -> None:
        """Send payloads behind all earlier ones. A range is never alone: every frame begins with bytes."""
        if not self._is_open or not payloads:
            return
        if self._waiting:
            self._waiting.extend(payloads)
        elif len(payloads) == 1:
            self._transport.write(cast("Buffer", payloads[0]))
        elif any(type(payload) is FileRange for payload in payloads):
            self._write_ranges(payloads)
        else:
            self._transport.writelines(cast("Sequence[Buffer]", payloads))

    def close(self) -> None:
        """Drop what waits: the connection is gone."""
        self._is_open = False
        self._waiting.clear()
        self._sent_bytes = 0
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write_ranges(self, payloads: Sequence[Payload]) -> None:
        if self._writer is None:
            self._writer = self._network.direct_writer(self._transport)
        if self._writer is not None:
            self._waiting.extend(payloads)
            self._pump()
            return
        try:
            buffers = [_materialised(payload) for payload in payloads]
        except (OSError, EOFError) as error:
            self._fail(error)
        else:
            self._transport.writelines(buffers)

    def _pump(self) -> None:
        """Send until everything has left or must wait for room."""
        writer = self._writer
        if writer is None:
            return
        try:
            if not self._send_waiting(writer):
                writer.call_when_ready(self._pump)
                if not self._paused:
                    self._paused = True
                    self._flow.pause_writing()
                return
        except (OSError, EOFError) as error:
            self._fail(error)
            return
        if self._paused:
            self._paused = False
            self._flow.resume_writing()

    def _send_waiting(self, writer: DirectWriter) -> bool:
        """Return whether all has left."""
        waiting = self._waiting
        # Only what the transport has already given to the socket is before us.
        budget = TURN_BYTES if not self._transport.get_write_buffer_size() else 0
        while waiting and budget > 0:
            payload, start = waiting[0], self._sent_bytes
            if type(payload) is FileRange:
                count = writer.send_range(payload, start)
            else:
                rest = memoryview(cast("Buffer", payload))[start:]
                count = writer.send(rest, more=len(waiting) > 1)
            if start + count < len(payload):
                # A part that was not taken means that the socket is full: another attempt would be in vain.
                self._sent_bytes += count
                return False
            waiting.popleft()
            self._sent_bytes = 0
            budget -= count
        return not waiting

    def _fail(self, error: OSError | EOFError) -> None:
        # The length of the frame is out already, so there is no way to go on.
        if not isinstance(error, ConnectionError):
            logger.error("a response cannot be sent to its end: %s", error)
        self.close()
        self._transport.abort()


def _materialised(payload: Payload) -> Buffer:
    return payload.read() if isinstance(payload, FileRange) else payload
