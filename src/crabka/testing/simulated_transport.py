"""The two ends of a simulated connection, with the behaviour of TCP and of asyncio's transports.

Owns ordering, chunking, flow control and the ways in which a connection ends. Must not know hosts and partitions:
a Link decides how long a segment travels and whether it travels at all.

Each direction is a Pipe. Bytes stay in order and arrive after the link's latency, in chunks that a generator draws.
Bytes that are written but not yet taken by the peer's protocol fill first the window (the kernels' socket buffers)
and then the transport's write buffer, whose limits pause the writer.

A protocol is called in the context (contextvars) of the code that connected or listened, as asyncio's own transports
do, and never in that of its peer.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from crabka.ports import Buffer

# What the kernels of both ends hold before a writer notices that the reader does not read.
WINDOW_BYTES = 128 * 1024
# asyncio's defaults.
HIGH_WATER_BYTES = 64 * 1024
# asyncio reads at most so much at once.
MAX_CHUNK_BYTES = 256 * 1024

FIN = b""  # no segment is empty, so this one can mean the end of the stream


class Link(Protocol):
    """One direction between two hosts."""

    def travel_s(self) -> float:
        """Draw the seconds that a segment travels."""
        ...

    def blocked(self) -> bool:
        """Return whether nothing travels now: segments wait, as TCP retransmits them."""
        ...

    def park(self, pipe: Pipe) -> None:
        """Call `pipe.resume()` when the link is no longer blocked."""
        ...


class Pipe:
    """One direction of a connection: segments on their way to the receiver."""

    def __init__(self, loop: asyncio.AbstractEventLoop, link: Link, receiver: SimulatedTransport) -> None:
        self._loop = loop
        self._link = link
        self._receiver = receiver
        self._segments: deque[tuple[float, bytes | Exception]] = deque()
        self._context = contextvars.Context()  # what travels belongs to no task
        self._timer: asyncio.TimerHandle | None = None

    def send(self, segment: bytes | Exception) -> None:
        """Send bytes, FIN or a reset."""
        arrival = self._loop.time() + self._link.travel_s()
        if self._segments:
            arrival = max(arrival, self._segments[-1][0])  # TCP keeps the order
        self._segments.append((arrival, segment))
        self._set_timer()

    def send_reset(self, error: Exception) -> None:
        """Drop what is on the way and send a reset instead."""
        self._segments.clear()
        self.send(error)

    def resume(self) -> None:
        """Continue after the link was blocked: held segments are sent now."""
        delay = self._link.travel_s()
        now = self._loop.time()
        self._segments = deque((max(arrival, now + delay), segment) for arrival, segment in self._segments)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None and self._segments:
            due = self._segments[0][0]
            self._timer = self._loop.call_at(due, self._arrive, due, context=self._context)

    def _arrive(self, due: float) -> None:
        self._timer = None
        if self._segments and self._link.blocked():
            self._link.park(self)
            return
        while self._segments and self._segments[0][0] <= due:
            self._receiver.arrived(self._segments.popleft()[1])
        self._set_timer()


class SimulatedTransport(asyncio.Transport):
    """One end of a connection. Its peer is another SimulatedTransport."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rng: random.Random, sockname: tuple[str, int], peername: tuple[str, int]
    ) -> None:
        super().__init__(extra={"sockname": sockname, "peername": peername})
        self._loop = loop
        self._rng = rng
        self._protocol: asyncio.BaseProtocol | None = None  # none before connection_made and after connection_lost
        self._context: contextvars.Context | None = None  # that of the protocol, from connection_made on
        self._peer: SimulatedTransport | None = None
        self._outgoing: Pipe | None = None
        # Receiving side.
        self._received = bytearray()
        self._fin_received = False
        self._reading = True
        self._pumping = False
        # Sending side.
        self._untaken_bytes = 0  # written here, not yet taken by the peer's protocol
        self._low_water, self._high_water = HIGH_WATER_BYTES // 4, HIGH_WATER_BYTES
        self._writing_paused = False
        self._fin_sent = False
        # The end.
        self._closing = False
        self._dead = False  # connection_lost is scheduled or the host crashed: nothing goes in or out

    def attach(self, peer: SimulatedTransport, link: Link) -> None:
        """Join this end to its peer; `link` leads there."""
        self._peer = peer
        self._outgoing = Pipe(self._loop, link, peer)

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection to its protocol; what arrived before waits until now."""
        self._protocol = protocol
        self._context = contextvars.copy_context()
        protocol.connection_made(self)
        if self._dead:
            # It ended before it was accepted.
            self._loop.call_soon(self._lose, _connection_reset(), context=self._context)
        self._pump_soon()

    # For the application.

    def write(self, data: Buffer) -> None:
        """Send bytes; they are copied."""
        if self._closing or not len(data) or self._outgoing is None:
            return
        if self._fin_sent:
            raise RuntimeError("Cannot call write() after write_eof()")
        self._untaken_bytes += len(data)
        self._outgoing.send(bytes(data))
        self._maybe_pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send several buffers as one segment."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Return True: a connection can be half closed."""
        return True

    def write_eof(self) -> None:
        """Send what is written and then the end of the stream."""
        if not self._fin_sent and not self._dead and self._outgoing is not None:
            self._fin_sent = True
            self._outgoing.send(FIN)

    def pause_reading(self) -> None:
        """Keep bytes back from the protocol until resume_reading."""
        self._reading = False

    def resume_reading(self) -> None:
        """Give the protocol what has arrived and what will."""
        self._reading = True
        self._pump_soon()

    def is_reading(self) -> bool:
        """Return whether the protocol receives."""
        return self._reading and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is notified to pause and resume writing, with asyncio's defaults."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low_water, self._high_water = low, high
        self._maybe_pause_writing()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high limit."""
        return self._low_water, self._high_water

    def get_write_buffer_size(self) -> int:
        """Return how many written bytes the window has no room for."""
        return max(self._untaken_bytes - WINDOW_BYTES, 0)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Switch to another protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol. Raises RuntimeError when the connection has none yet or no more."""
        if self._protocol is None:
            raise RuntimeError("the connection has no protocol")
        return self._protocol

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._closing

    def close(self) -> None:
        """Stop reading, send what is written, then end the connection."""
        if not self._closing:
            self._closing = True
            self._discard_received()
            self.write_eof()
            self._finish_if_flushed()

    def abort(self) -> None:
        """End the connection at once; the peer sees a reset."""
        self._end(None, reset_peer=True)

    # For the network.

    def arrived(self, segment: bytes | Exception) -> None:
        """Take a segment from the network."""
        if isinstance(segment, Exception):
            self._end(segment, reset_peer=False)
        elif segment is FIN:
            self._fin_received = True
            self._pump_soon()
        elif self._dead:
            # As a kernel resets a closed socket. The reset may overtake unread bytes.
            self._reset_peer()
        else:
            self._received += segment
            if self._closing:
                self._discard_received()
            self._pump_soon()

    @property
    def dead(self) -> bool:
        """Return whether the connection is over for this end, except perhaps for the last call of its protocol."""
        return self._dead

    def vanish(self) -> None:
        """End without notifying the own protocol: its host crashed. The peer sees a reset."""
        self._protocol = None
        self._end(None, reset_peer=True)

    def break_off(self) -> None:
        """End with a reset of the network's making."""
        self._end(_connection_reset(), reset_peer=False)

    # Delivery to the protocol.

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump, context=self._context)

    def _pump(self) -> None:
        """Deliver one chunk per turn of the loop, as a loop that polls sockets does."""
        self._pumping = False
        if self._protocol is None or self._closing or self._dead or not self._reading:
            return
        try:
            if self._received:
                self._deliver_chunk(self._protocol)
            elif self._fin_received:
                self._fin_received = False
                self._deliver_end(self._protocol)
        except Exception as error:  # noqa: BLE001 - asyncio reports any error and closes the connection
            self._loop.call_exception_handler(
                {"message": "Fatal error: protocol failed", "exception": error, "transport": self}
            )
            self._end(error, reset_peer=True)
            return
        if self._received or self._fin_received:
            self._pump_soon()

    def _deliver_chunk(self, protocol: asyncio.BaseProtocol) -> None:
        size = min(len(self._received), MAX_CHUNK_BYTES)
        if self._rng.random() < 0.25:
            size = self._rng.randint(1, size)
        if isinstance(protocol, asyncio.BufferedProtocol):
            with memoryview(protocol.get_buffer(-1)) as buffer:
                size = min(size, len(buffer))
                if not size:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                buffer[:size] = self._received[:size]
            del self._received[:size]
            self._taken(size)
            protocol.buffer_updated(size)
        elif isinstance(protocol, asyncio.Protocol):
            chunk = bytes(self._received[:size])
            del self._received[:size]
            self._taken(size)
            protocol.data_received(chunk)

    def _deliver_end(self, protocol: asyncio.BaseProtocol) -> None:
        keep_open = False
        if isinstance(protocol, asyncio.BufferedProtocol | asyncio.Protocol):
            keep_open = bool(protocol.eof_received())
        if not keep_open:
            self.close()

    # Flow control.

    def _taken(self, count: int) -> None:
        if self._peer is not None:
            self._peer._peer_took(count)

    def _peer_took(self, count: int) -> None:
        self._untaken_bytes -= count
        if self._writing_paused and self.get_write_buffer_size() <= self._low_water and self._protocol is not None:
            self._writing_paused = False
            self._protocol.resume_writing()
        self._finish_if_flushed()

    def _maybe_pause_writing(self) -> None:
        if not self._writing_paused and self.get_write_buffer_size() > self._high_water and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    # The end.

    def _finish_if_flushed(self) -> None:
        if self._closing and not self._dead and not self.get_write_buffer_size():
            self._dead = True
            self._loop.call_soon(self._lose, None, context=self._context)

    def _end(self, error: Exception | None, *, reset_peer: bool) -> None:
        self._received.clear()
        self._closing = True
        if not self._dead:
            self._dead = True
            if reset_peer:
                self._reset_peer()
            self._loop.call_soon(self._lose, error, context=self._context)

    def _reset_peer(self) -> None:
        if self._outgoing is not None:
            self._outgoing.send_reset(_connection_reset())

    def _discard_received(self) -> None:
        count = len(self._received)
        self._received.clear()
        self._taken(count)

    def _lose(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)


def _connection_reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
