"""Accepts the connections of one listening socket, several in each turn of the loop.

The loops' own servers differ: asyncio's accepts all that wait, uvloop's (as libuv does since 1.45) one in each turn. On
a busy node a turn takes milliseconds, and with one connection in each a client that connects waits for all that came
before it. Here a turn accepts up to ACCEPTS_PER_TURN: enough to keep pace with a crowd, few enough that others are not
kept waiting by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.ports import TlsAcceptance

logger = logging.getLogger(__name__)

ACCEPTS_PER_TURN: Final = 32
# How long a closed connection may still write, and wait for its peer to agree to the end of TLS, which not all do.
TLS_SHUTDOWN_S: Final = 1.0
# How long nothing is accepted after the system had no descriptor or memory for a connection.
PAUSE_S: Final = 0.2

_NOTHING_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Hands connections to protocols. Owns the listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        tls: TlsAcceptance | None = None,
    ) -> None:
        """The socket listens already. Accepting begins with `start`."""
        self._tls = tls
        self._listening = listening
        self._factory = factory
        self._loop = asyncio.get_running_loop()
        # In the order of their arrival.
        self._opening: dict[asyncio.Task[object], socket.socket] = {}
        self._pause: asyncio.TimerHandle | None = None
        self._is_short = False
        self._is_closed = False

    def start(self) -> None:
        """Accept from now on."""
        self._listening.settimeout(0)
        self._loop.add_reader(self._listening, self._accept_some)

    def close(self) -> None:
        """Accept no more; connections that exist live on."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()
        if self._tls is not None:
            for task in tuple(self._opening):
                self._give_up(task)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self._is_closed:
                return
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _NOTHING_LEFT:
                    raise
                self._rest(error)
                return
            self._is_short = False
            self._open(connection, str(address[0]))

    def _open(self, connection: socket.socket, peer_host: str) -> None:
        connection.settimeout(0)
        tls = self._tls
        task: asyncio.Task[object] = self._loop.create_task(
            self._loop.connect_accepted_socket(self._factory, connection)
            if tls is None
            else self._accept_tls(connection, peer_host, tls)
        )
        self._opening[task] = connection
        task.add_done_callback(self._on_opened)
        if tls is not None and len(self._opening) > tls.max_handshakes:
            # Who has had the most time; a client that means it needs little.
            self._give_up(next(iter(self._opening)))

    async def _accept_tls(self, connection: socket.socket, peer_host: str, tls: TlsAcceptance) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._factory,
                connection,
                ssl=tls.context(),
                ssl_handshake_timeout=tls.handshake_timeout_s,
                ssl_shutdown_timeout=TLS_SHUTDOWN_S,
            )
        except OSError as error:
            # One that was given up here is not the peer's fault.
            if asyncio.current_task() in self._opening:
                tls.on_failure(peer_host, error)

    def _give_up(self, task: asyncio.Task[object]) -> None:
        """End a handshake by ending its connection: the loop owns the socket, and lets go of it in its own way."""
        connection = self._opening.pop(task)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _on_opened(self, task: asyncio.Task[object]) -> None:
        self._opening.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
            logger.error("a connection could not be taken in", exc_info=error)

    def _rest(self, error: OSError) -> None:
        """Stop for a while: the socket stays readable, and the loop would do nothing else."""
        if not self._is_short:
            self._is_short = True
            logger.warning("connections wait: %s", error.strerror)
        self._loop.remove_reader(self._listening)
        self._pause = self._loop.call_later(PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._accept_some)
