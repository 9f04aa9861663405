"""One client connection: bytes in, frames to the dispatcher, responses out in the order of their requests.

Owns order and flow, and knows nothing of Kafka's APIs. The dispatcher answers a frame at once with buffers, or with
None when the protocol has no response, or later through a future. While nothing is pending an answer is written
in the same turn of the loop, without task or future. A connection stops reading when too much is in flight or the
peer does not take its responses, so its memory is bounded by ConnectionLimits; when its requests have used up its part
of a turn of the loop (`turns`); and when the frame it receives has to wait for memory (`frame_memory`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from crabka.errors import WireError, drop_tracebacks
from crabka.net.dispatch import ConnectionInfo, Dispatch, Gate, Response, no_mute
from crabka.net.frame_memory import FrameState
from crabka.net.outbox import Outbox
from crabka.net.tls import ListenerTls
from crabka.net.turns import BUSY_FREE_REQUESTS, CHECK_REQUESTS
from crabka.ports import Payload
from crabka.protocol.frames import FrameBuffer

if TYPE_CHECKING:
    from crabka.net.server import Server

logger = logging.getLogger(__name__)

# A frame of this size or less is copied before it is handled: a request that waits then never pins a receive chunk.
COPY_BYTES = 4096
# Responses made in one turn are written together up to this size.
WRITE_BATCH_BYTES = 256 * 1024


@dataclass(slots=True, eq=False)
class _Pending:
    """A request whose response cannot be written yet."""

    future: asyncio.Future[Response] | None = None
    frame: memoryview | None = None  # keeps the bytes alive for the handler
    held_bytes: int = 0  # memory of the request
    response: Response = None
    unsent_bytes: int = 0  # memory of the response
    ready: bool = False
    failed: bool = False


class ServerConnection(asyncio.BufferedProtocol):
    """The server's end of a connection."""

    def __init__(self, server: Server, connection_id: int) -> None:
        self._server = server
        self._limits = server.limits
        self._turns = server.turns
        self._memory = server.memory
        self._frames = FrameBuffer(server.limits.max_frame_bytes, server.memory.pool)
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._pending: deque[_Pending] = deque()
        self._in_flight_bytes = 0
        self._unsent_bytes = 0
        self._write_paused = False
        self._reading_paused = False
        self._is_in_line = False  # for the next turn, with frames that are complete
        self._has_handled = False  # frames, since bytes came last
        self._is_counted = False  # the memory of frames that are not handled
        self._waits_for_memory = False
        self._unmute_timer: asyncio.TimerHandle | None = None  # while the peer used more than its share
        self._finishing = False  # no more requests; closes when all responses are written
        self._last_unsent_bytes = 0
        self.active_tick = server.tick  # when the peer last did something, in ticks of the server's idle sweep
        self.info = ConnectionInfo(connection_id, server.listener_name, "unknown", 0)
        self._gate: Gate | None = None if server.make_gate is None else server.make_gate(self, server.dispatch)
        self._dispatch: Dispatch = self._gate or server.dispatch
        self.info.mute = self.mute

    # --- asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register with the server, which may refuse."""
        # uvloop's transports are asyncio transports in all but the base class.
        self._transport = transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.info.peer_host, self.info.peer_port = str(peer[0]), int(peer[1])
        transport.set_write_buffer_limits(high=self._limits.write_high_bytes, low=self._limits.write_low_bytes)
        self._outbox = Outbox(self._server.network, transport, self)
        if self._server.tls is not None:
            self._identify(self._server.tls, transport)
        if not self._server.register(self, transport):
            transport.abort()

    def _identify(self, tls: ListenerTls, transport: asyncio.Transport) -> None:
        """Take the principal from the client's certificate."""
        encrypted = transport.get_extra_info("ssl_object")
        try:
            self.info.principal = tls.principal_of(None if encrypted is None else encrypted.getpeercert(True))  # noqa: FBT003 - the name of the parameter differs between loops
        except WireError as error:
            self._report(error)
            transport.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Forget everything; answers that arrive later are dropped."""
        self._finishing = True
        self._transport = None
        if self._outbox is not None:
            self._outbox.close()
            self._outbox = None
        self._give_up_pending()
        self._end_mute()
        # Something may refer to a connection for a while after its end; only the collector would find a cycle.
        self.info.mute = no_mute
        self._frames.close()
        self._memory.release(self)
        self._server.unregister(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory for the next bytes."""
        return self._frames.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that the new bytes complete."""
        self.active_tick = self._server.tick
        self._frames.received(nbytes)
        free_requests = self._turns.free_requests
        if free_requests == BUSY_FREE_REQUESTS and self._frames.has_more_than(free_requests):
            free_requests = 0  # it stands in line anyway
        self._handle_frames(free_requests)

    def eof_received(self) -> bool:
        """Take no more requests; what was sent only in part is sent to its end."""
        # Without a word from us the transport closes, and it does not know what the outbox has.
        if self._is_outbox_waiting():
            self.finish()
            return True
        return False

    def pause_writing(self) -> None:
        """Stop: the peer does not take its responses."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """Go on: the peer took most of its responses."""
        if self._is_outbox_waiting():
            return  # the transport has room, but it is not its turn
        self._write_paused = False
        self.active_tick = self._server.tick
        self._flush_pending()
        self._go_on()

    # --- for the server

    @property
    def is_reading(self) -> bool:
        """False while a limit keeps the connection from being read, or after its last request."""
        return self._transport is not None and not self._reading_paused

    @property
    def held_frame_bytes(self) -> int:
        """Memory of what was received and not handled yet."""
        return self._frames.held_bytes

    def redirect(self, dispatch: Dispatch) -> None:
        """Pass frames to another dispatcher from now on."""
        if self._gate is not None:
            self._gate.redirect(dispatch)
        else:
            self._dispatch = dispatch

    def open_gate(self, dispatch: Dispatch) -> None:
        """Pass frames to the dispatcher directly from now on."""
        self._gate = None
        self._dispatch = dispatch

    def bound_frames(self, max_bytes: int | None) -> None:
        """Accept no larger frames; None stands for the limit of the listener."""
        limit = self._limits.max_frame_bytes
        self._frames.max_frame_bytes = limit if max_bytes is None else min(limit, max_bytes)

    def finish(self) -> None:
        """Take no more requests and close once all responses are written."""
        if self._transport is None:
            return
        self._finishing = True
        self._pause_reading(self._transport)
        self._close_if_finished()

    def abort(self) -> None:
        """Cut the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def mute(self, duration_ms: int) -> None:
        """Handle no more requests for so long, or until a longer mute ends; what is answered is sent."""
        if self._transport is None:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + duration_ms / 1000
        if self._unmute_timer is not None:
            if self._unmute_timer.when() >= end:
                return
            self._unmute_timer.cancel()
        self._unmute_timer = loop.call_at(end, self._unmute)

    def is_idle(self, oldest_tick: int) -> bool:
        """Return whether nothing moved since `oldest_tick` and no request waits inside the node."""
        if self._outbox is None or self._unmute_timer is not None or any(not entry.ready for entry in self._pending):
            return False
        buffered = self._outbox.unsent_bytes
        if buffered < self._last_unsent_bytes:
            self.active_tick = self._server.tick
        self._last_unsent_bytes = buffered
        return self.active_tick < oldest_tick

    # --- for what connections share

    def take_turn(self) -> None:
        """Go on with what was read before."""
        self._is_in_line = False
        if not self._finishing:
            self._handle_frames(free_requests=1)

    def on_memory(self) -> None:
        """Read on: there is room for the rest of the frame."""
        self._waits_for_memory = False
        self.active_tick = self._server.tick
        self._go_on()

    def on_memory_lost(self, reason: str) -> None:
        """End, because the frame that is not complete holds memory that others wait for."""
        self._server.complain(self, WireError(f"an unfinished request {reason}, and others wait for memory"))
        self.abort()

    # --- requests

    def _is_blocked(self) -> bool:
        limits = self._limits
        return (
            self._finishing
            or self._write_paused
            or self._unmute_timer is not None
            or len(self._pending) >= limits.max_in_flight_requests
            or self._in_flight_bytes >= limits.max_in_flight_bytes
            or self._unsent_bytes >= limits.max_unsent_bytes
            or (self._in_flight_bytes > 0 and self._memory.is_full)
        )

    def _handle_frames(self, free_requests: int = 0) -> None:
        """Dispatch frames until there are none, the connection is blocked or its turn is over; set the flow of reading.

        So many requests are handled even if the turn of the loop is over already.
        """
        if self._is_in_line:
            return
        try:
            drained = self._dispatch_frames(free_requests)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises costs its connection, not the node
            self._report(error)
            self.finish()
            return
        transport = self._transport
        if transport is None or self._finishing:
            return
        if self._is_counted or not self._frames.is_empty:
            state = FrameState(drained, is_new=self._has_handled, received_bytes=self._frames.pending_bytes)
            self._waits_for_memory = not self._count_memory(state)
        if not drained or self._waits_for_memory:
            self._pause_reading(transport)
        elif self._reading_paused:
            self._reading_paused = False
            transport.resume_reading()

    def _count_memory(self, state: FrameState) -> bool:
        """Report what the frames hold, and what the incomplete one needs; return False if that has to wait."""
        frames = self._frames
        if frames.is_empty:
            self._is_counted = False
            self._memory.release(self)
            return True
        self._is_counted = True
        held_bytes = frames.held_bytes
        return self._memory.hold(self, held_bytes, frames.wanted_bytes if state.is_unfinished else held_bytes, state)

    def _dispatch_frames(self, free_requests: int) -> bool:
        """Return True when all complete frames are dispatched and more may come. Raises what the dispatcher raises."""
        frames = self._frames
        responses: list[Payload] = []
        size = 0
        handled, check_at = 0, free_requests
        try:
            # Without pending requests no limit of theirs can be reached; this is the usual case.
            while (
                not (self._pending or self._write_paused or self._finishing or self._unmute_timer)
                or not self._is_blocked()
            ):
                if handled >= check_at:
                    if self._must_yield(handled):
                        return False
                    # As many again take about as long: a turn ends late by what it took so far at most.
                    check_at = max(2 * handled, CHECK_REQUESTS)
                handled += 1
                frame = frames.next_frame()
                if frame is None:
                    return True
                if len(frame) <= COPY_BYTES:
                    frame = memoryview(bytes(frame))
                answer = self._dispatch(self.info, frame)
                if isinstance(answer, asyncio.Future):
                    self._wait_for(answer, frame)
                elif answer is None:
                    continue
                elif self._pending:
                    self._queue_behind_pending(answer)
                else:
                    responses += answer
                    size += len(answer[0])
                    # Record slices are large: they go to the transport now, which may say that it has enough.
                    if len(answer) > 1 or size > WRITE_BATCH_BYTES:
                        self._write(responses)
                        responses = []
                        size = 0
            return False
        finally:
            # Answers to requests before one that broke the protocol still belong to the peer.
            self._write(responses)
            self._has_handled = handled > 1

    def _must_yield(self, handled: int) -> bool:
        """Return whether the rest of the frames has to wait for the next turn; the connection is in line then."""
        if not (self._turns.is_over(handled) and self._frames.has_frame):
            return False
        self._frames.shrink()
        self._is_in_line = True
        self._turns.join(self)
        return True

    def _wait_for(self, future: asyncio.Future[Response], frame: memoryview) -> None:
        held_bytes = len(frame) if len(frame) <= COPY_BYTES else self._frames.retain()
        entry = _Pending(future, frame, held_bytes)
        self._in_flight_bytes += held_bytes
        if held_bytes > COPY_BYTES:
            self._memory.add_in_flight(held_bytes)
        self._pending.append(entry)
        future.add_done_callback(partial(self._on_answer, entry))

    def _queue_behind_pending(self, answer: Sequence[Payload]) -> None:
        entry = _Pending(ready=True)
        self._keep_response(entry, answer)
        self._pending.append(entry)

    # --- responses

    def _on_answer(self, entry: _Pending, future: asyncio.Future[Response]) -> None:
        entry.ready = True
        entry.frame = None
        self._in_flight_bytes -= entry.held_bytes
        if entry.held_bytes > COPY_BYTES:
            self._memory.remove_in_flight(entry.held_bytes)
        if future.cancelled():
            entry.failed = True
        elif (error := future.exception()) is not None:
            entry.failed = True
            self._report(error)
        elif self._transport is not None:
            self._keep_response(entry, future.result())
        self._flush_pending()
        self._go_on()

    def _keep_response(self, entry: _Pending, response: Response) -> None:
        if response is not None:
            entry.response = response
            entry.unsent_bytes = sum(map(len, response))
            self._unsent_bytes += entry.unsent_bytes

    def _flush_pending(self) -> None:
        """Write the responses at the head of the queue that are ready."""
        while self._pending and self._pending[0].ready and not self._write_paused:
            entry = self._pending.popleft()
            if entry.failed:
                self._close_after_failure()
                return
            self._unsent_bytes -= entry.unsent_bytes
            if entry.response is not None:
                self._write(entry.response)

    def _report(self, error: BaseException) -> None:
        if isinstance(error, WireError):
            self._server.complain(self, error)
        else:
            logger.error("a request of %s failed", self.info, exc_info=error)
        drop_tracebacks(error)

    def _close_after_failure(self) -> None:
        # The failed request has no response, so none of the later ones may be sent either.
        self._finishing = True
        self._give_up_pending()
        self._close_if_finished()

    def _give_up_pending(self) -> None:
        pending, self._pending = self._pending, deque()
        for entry in pending:
            if entry.future is not None and not isinstance(entry.future, asyncio.Task):
                entry.future.cancel()

    def _write(self, payloads: Sequence[Payload]) -> None:
        if self._outbox is not None:
            self._outbox.write(payloads)

    # --- flow

    def _pause_reading(self, transport: asyncio.Transport) -> None:
        if not self._reading_paused and not transport.is_closing():
            self._reading_paused = True
            transport.pause_reading()

    def _unmute(self) -> None:
        self._unmute_timer = None
        self.active_tick = self._server.tick
        self._go_on()

    def _end_mute(self) -> None:
        if self._unmute_timer is not None:
            self._unmute_timer.cancel()
            self._unmute_timer = None

    def _go_on(self) -> None:
        if self._finishing:
            self._close_if_finished()
        else:
            self._handle_frames()

    def _close_if_finished(self) -> None:
        # The transport writes what it has before it closes; what the outbox has must have left.
        if self._transport is not None and not self._pending and not self._is_outbox_waiting():
            self._transport.close()

    def _is_outbox_waiting(self) -> bool:
        return self._outbox is not None and self._outbox.is_waiting
