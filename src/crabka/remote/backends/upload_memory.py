"""How much memory all uploads to a bucket may hold together.

An upload has one file or some parts of it in memory. Many partitions are copied at once, so each of them takes its
share of a common bound first, and waits where there is none left. Knows nothing of files and stores.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class UploadMemory:
    """Shares of a bound, given out in the order of asking. Thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._held_bytes = 0
        self._waiting: deque[object] = deque()

    @property
    def held_bytes(self) -> int:
        """Return what is given out."""
        return self._held_bytes

    @property
    def waiting_count(self) -> int:
        """Return how many wait for their share."""
        return len(self._waiting)

    @contextmanager
    def share(self, byte_count: int) -> Iterator[None]:
        """Wait for so many bytes and hold them for the block; who needs more than there is has all of it alone.

        A thread must not ask for a second share: it could wait for itself.
        """
        wanted = min(byte_count, self._limit_bytes)
        self._take(wanted)
        try:
            yield
        finally:
            with self._changed:
                self._held_bytes -= wanted
                self._changed.notify_all()

    def _take(self, wanted: int) -> None:
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                # One behind the other, so that a large share is not passed by small ones for ever.
                self._changed.wait_for(
                    lambda: self._waiting[0] is turn and self._held_bytes + wanted <= self._limit_bytes
                )
                self._held_bytes += wanted
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
