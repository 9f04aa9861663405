"""Logs what a peer did wrong once, however often it does it.

A client that speaks an unknown version reconnects several times a second; its first mistake is news, the rest is noise.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

logger = logging.getLogger(__name__)

REPEAT_SECONDS = 600.0
MAX_REMEMBERED = 1024


class Complaints:
    """Remembers which peers were complained about lately."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str], float] = OrderedDict()

    def warn(self, peer: str, error: Exception, now_seconds: float) -> bool:
        """Log the error unless the same peer made the same kind of error lately. Return whether it was logged."""
        key = (peer, str(error))
        last = self._last.get(key)
        if last is not None and now_seconds - last < REPEAT_SECONDS:
            return False
        self._last[key] = now_seconds
        self._last.move_to_end(key)
        if len(self._last) > MAX_REMEMBERED:
            self._last.popitem(last=False)
        logger.warning("closing the connection of %s: %s", peer, error)
        return True
