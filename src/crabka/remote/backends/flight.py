"""How much of an upload is on its way: pieces that were handed to the store and not let go of yet.

A store on a network or a disk keeps a piece until the part that it belongs to has arrived or is given up; then the
memory comes back, and that is noticed here.
"""

from __future__ import annotations

import threading
import weakref

# Requests have time-outs of their own, so this ends only what those do not.
_PATIENCE_S = 120.0


class PiecesInFlight:
    """Counts the bytes that a store holds. Memory comes back in any thread."""

    def __init__(self) -> None:
        # The lock may be taken again by its owner: memory can come back at any step of the interpreter.
        self._changed = threading.Condition(threading.RLock())
        # By number: references to equal pieces are equal.
        self._references: dict[int, weakref.ref[memoryview]] = {}
        self._count = 0
        self._bytes = 0

    def track(self, piece: bytes) -> memoryview:
        """Return a view of a piece to hand over; the caller must not keep it."""
        view = memoryview(piece)
        length = len(view)
        with self._changed:
            number = self._count = self._count + 1

            def released(_reference: weakref.ref[memoryview]) -> None:
                with self._changed:
                    del self._references[number]
                    self._bytes -= length
                    self._changed.notify_all()

            self._references[number] = weakref.ref(view, released)
            self._bytes += length
        return view

    def wait(self, at_most: int) -> bool:
        """Wait until the store holds no more than that many bytes. Return False if it does not let go of them."""
        with self._changed:
            return self._changed.wait_for(lambda: self._bytes <= at_most, _PATIENCE_S)
