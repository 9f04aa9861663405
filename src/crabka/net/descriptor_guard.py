"""Refuses connections while descriptors are left that others need.

Systems give a new socket the lowest number that is free, so its number says how many descriptors are in use, without
counting them. A connection whose number comes too close to the limit is closed at once: its client sees the end of the
connection and comes back. The logs and the node itself go on with what is kept for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

# An episode is over when so many numbers below the bound are free again: a sixty-fourth of the limit, and more than a
# turn of the loop accepts, so that a crowd that comes and goes is one episode; at most half of the numbers.
_SLACK_SHARE: Final = 64
_LEAST_SLACK: Final = 64


class DescriptorGuard:
    """Decides on the connections of all listeners of a node."""

    def __init__(self, limit: int | None, reserve: Callable[[], int]) -> None:
        """`reserve` says how many descriptors others may still need; without a limit no connection is refused."""
        self._limit = limit
        self._reserve = reserve
        self._is_refusing = False
        self.refused_count = 0

    def admits(self, descriptor: int) -> bool:
        """Return whether a connection with this descriptor may stay. The first refusal of an episode is logged."""
        if self._limit is None:
            return True
        bound = self._limit - self._reserve()
        if descriptor < bound:
            if self._is_refusing and descriptor < bound - self._slack(self._limit, bound):
                self._is_refusing = False
                logger.info("connections are accepted again, %d were refused so far", self.refused_count)
            return True
        self.refused_count += 1
        if not self._is_refusing:
            self._is_refusing = True
            logger.warning(
                "refusing connections: of %d descriptors %d are kept for logs; raise the limit (ulimit -n)",
                self._limit,
                self._limit - bound,
            )
        return False

    @staticmethod
    def _slack(limit: int, bound: int) -> int:
        return min(max(limit // _SLACK_SHARE, _LEAST_SLACK), bound // 2)
