"""Counts log-ins, and logs refused ones, a few lines per second: names and passwords are in none of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from crabka.net.dispatch import ConnectionInfo
    from crabka.ports import Clock

logger = logging.getLogger(__name__)

LINES_PER_INTERVAL: Final = 3
INTERVAL_MS: Final = 1000


class LoginJournal:
    """The log-ins of all listeners of a node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._interval_began_ms: int | None = None
        self._lines = 0
        self._unlogged = 0
        self.login_count = 0
        self.refusal_count = 0
        self.ended_session_count = 0

    def note_login(self) -> None:
        """Count a client that logged in, or did so again."""
        self.login_count += 1

    def note_ended_session(self) -> None:
        """Count a connection that is closed because its session is over."""
        self.ended_session_count += 1

    def note_refusal(self, connection: ConnectionInfo, mechanism: str | None, reason: str) -> None:
        """Count and log a refused log-in."""
        self.refusal_count += 1
        now_ms = self._clock.monotonic_ms()
        if self._interval_began_ms is None or now_ms - self._interval_began_ms >= INTERVAL_MS:
            self._interval_began_ms = now_ms
            self._lines = 0
        if self._lines >= LINES_PER_INTERVAL:
            self._unlogged += 1
            return
        self._lines += 1
        unlogged, self._unlogged = self._unlogged, 0
        logger.warning(
            "log-in of %s refused at listener %s (%s): %s%s",
            connection,
            connection.listener,
            mechanism or "no mechanism yet",
            reason,
            f"; {unlogged} more were refused and not logged" if unlogged else "",
        )
