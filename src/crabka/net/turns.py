"""Turns of the loop, shared fairly by the connections of a node.

Owns the budget of a turn and the line of connections that used theirs up. A connection whose peer sends requests
faster than they are answered stops in the middle of what it has read and goes on in its next turn, in order of arrival;
reading waits meanwhile. Between two turns the loop serves all others once. Knows nothing of sockets or requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from crabka.ports import Clock

# What all connections in line may take of the loop before it looks at the sockets again.
TURN_MS: Final = 5
# Requests of one connection in a row, if few are in line; the more there are, the fewer, so that the line moves.
REQUESTS_PER_TURN: Final = 1024
MIN_REQUESTS_PER_TURN: Final = 4
_REQUESTS_PER_ROUND: Final = 1024
# Requests that are answered right after they were read. On a busy node, those of a client that waits for its answers:
# it never stands in line. One that has sent more gets none free then, so that what very many of them send at once takes
# TURN_MS of the loop and the time to read it. On a node that is not busy, also those of a client that has some in
# flight: it does not even begin a turn.
BUSY_FREE_REQUESTS: Final = 2
FREE_REQUESTS: Final = 16
# The clock is read first after so many requests, and then each time their number has doubled.
CHECK_REQUESTS: Final = 8


class TurnTaker(Protocol):
    """Who stands in line."""

    def take_turn(self) -> None:
        """Go on, with at least one request."""
        ...


class Turns:
    """The line of one loop."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Without a clock only the number of requests ends a connection's turn."""
        self._clock = clock
        self._line: deque[TurnTaker] = deque()
        self._deadline_ms = 0
        self._is_scheduled = False
        # So many requests a connection may handle before it asks `is_over`.
        self.free_requests = FREE_REQUESTS

    def __len__(self) -> int:
        return len(self._line)

    def is_over(self, handled: int) -> bool:
        """Return whether a connection that handled so many requests has to stop. The first to ask begins a turn."""
        if not self._is_scheduled:
            self._schedule()
            self._deadline_ms = self._now_ms() + TURN_MS
        if handled >= REQUESTS_PER_TURN or self._now_ms() >= self._deadline_ms:
            return True
        return handled >= max(_REQUESTS_PER_ROUND // (len(self._line) + 1), MIN_REQUESTS_PER_TURN)

    def join(self, connection: TurnTaker) -> None:
        """Stand in line: `take_turn` is called once, in a later turn of the loop."""
        self._line.append(connection)
        if not self._is_scheduled:
            self._deadline_ms = self._now_ms() + TURN_MS
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        self.free_requests = BUSY_FREE_REQUESTS
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        # `_is_scheduled` holds until the end: who stops in this turn joins the line without scheduling another.
        self._deadline_ms = self._now_ms() + TURN_MS
        try:
            for _ in range(len(self._line)):
                self._line.popleft().take_turn()
                if self._now_ms() >= self._deadline_ms:
                    break
        finally:
            if self._line:
                self._schedule()
            else:
                self._is_scheduled = False
                self.free_requests = FREE_REQUESTS

    def _now_ms(self) -> int:
        return 0 if self._clock is None else self._clock.monotonic_ms()
