"""What stands between a connection of a SASL listener and the dispatcher until its client has logged in.

Carries out what `crabka.security.sasl.server_login` decides. A client whose session does not end pays for the gate only
until it has logged in: then its frames go to the dispatcher directly. With a limited session (KIP-368) the gate stays
and looks at the time of every request: a connection whose session is over is closed at its next request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from crabka.security.sasl.server_login import (
    Answered,
    LoggedIn,
    LoginRules,
    PassOn,
    Refused,
    ServerLogin,
    Session,
    begins_login,
)

if TYPE_CHECKING:
    from crabka.net.dispatch import ConnectionInfo, Dispatch, Response
    from crabka.ports import Clock
    from crabka.serving.logins.journal import LoginJournal

# A client may log in again at most so often; as in Kafka, a SaslHandshake that is too early is an ordinary request.
MIN_LOGIN_INTERVAL_MS: Final = 1000


class GatedConnection(Protocol):
    """The connection behind the gate."""

    info: ConnectionInfo

    def open_gate(self, dispatch: Dispatch) -> None:
        """Pass frames to the dispatcher directly from now on."""
        ...

    def bound_frames(self, max_bytes: int | None) -> None:
        """Accept no larger frames; None stands for the limit of the listener."""
        ...

    def finish(self) -> None:
        """Take no more requests and close once all responses are written."""
        ...


class LoginGate:
    """The gate of one connection."""

    def __init__(
        self,
        connection: GatedConnection,
        dispatch: Dispatch,
        rules: LoginRules,
        *,
        clock: Clock,
        journal: LoginJournal,
        max_receive_bytes: int,
        failure_delay_ms: int,
    ) -> None:
        """A refused client waits for its answer and the end of the connection."""
        self._connection = connection
        self._dispatch = dispatch
        self._rules = rules
        self._clock = clock
        self._journal = journal
        self._max_receive_bytes = max_receive_bytes
        self._failure_delay_ms = failure_delay_ms
        self._login: ServerLogin | None = ServerLogin(rules)
        self._session: Session | None = None
        self._ends_ms: int | None = None
        self._last_login_ms: int | None = None
        self._is_refused = False
        connection.bound_frames(max_receive_bytes)

    def redirect(self, dispatch: Dispatch) -> None:
        """Pass the frames of clients that logged in to another dispatcher from now on."""
        self._dispatch = dispatch

    def __call__(self, info: ConnectionInfo, frame: memoryview) -> Response | asyncio.Future[Response]:
        """Answer a frame of the log-in, or pass it on."""
        if self._is_refused:
            return None
        login = self._login
        if login is None:
            now_ms = self._clock.monotonic_ms()
            if not (begins_login(frame) and self._may_login_again(now_ms)):
                if self._ends_ms is not None and now_ms > self._ends_ms:
                    self._end_session()
                    return None
                return self._dispatch(info, frame)
            self._last_login_ms = now_ms
            login = self._login = ServerLogin(self._rules, self._session)
            self._connection.bound_frames(self._max_receive_bytes)
        match login.receive(frame):
            case PassOn():
                return self._dispatch(info, frame)
            case Answered(answer):
                return (answer,)
            case LoggedIn(answer, session):
                self._log_in(session)
                return (answer,)
            case Refused(answer, reason, mechanism):
                return self._refuse(answer, reason, mechanism)

    def _may_login_again(self, now_ms: int) -> bool:
        last_ms = self._last_login_ms
        return self._session is not None and (last_ms is None or now_ms - last_ms >= MIN_LOGIN_INTERVAL_MS)

    def _log_in(self, session: Session) -> None:
        connection = self._connection
        connection.info.principal = session.principal
        connection.bound_frames(None)
        self._journal.note_login()
        self._login = None
        if session.lifetime_ms is None:
            connection.open_gate(self._dispatch)
            return
        self._session = session
        self._ends_ms = self._clock.monotonic_ms() + session.lifetime_ms

    def _end_session(self) -> None:
        self._journal.note_ended_session()
        self._is_refused = True
        # After the answers to requests that came in one piece with this one.
        asyncio.get_running_loop().call_soon(self._connection.finish)

    def _refuse(self, answer: bytes | None, reason: str, mechanism: str | None) -> asyncio.Future[Response]:
        """Answer after a while, which slows down who tries many passwords, and close."""
        self._journal.note_refusal(self._connection.info, mechanism, reason)
        self._is_refused = True
        loop = asyncio.get_running_loop()
        held_back: asyncio.Future[Response] = loop.create_future()
        response: Response = None if answer is None else (answer,)
        timer = loop.call_later(self._failure_delay_ms / 1000, self._settle, held_back, response)
        held_back.add_done_callback(lambda _: timer.cancel())
        return held_back

    def _settle(self, held_back: asyncio.Future[Response], response: Response) -> None:
        if not held_back.done():
            held_back.set_result(response)
            # The answer leaves first: it is counted until its future has called back.
            self._connection.finish()
