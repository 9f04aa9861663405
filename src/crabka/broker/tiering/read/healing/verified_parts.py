"""Which bytes of remote segments were recently found to be whole, so that they are not checked for every reader.

Bounded in segments and in parts of each. What was checked is forgotten after a while, because a disk may change bytes
at any time; those of the page cache that many consumers read one after another do not change.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from crabka.ports import Clock

MAX_SEGMENTS: Final = 1024
MAX_PARTS: Final = 64


class _Part(NamedTuple):
    start: int
    end: int
    checked_ms: int


class SegmentParts:
    """The checked parts of one segment, in no order; adjacent ones are one."""

    __slots__ = ("_is_void", "_parts")

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._is_void = False

    def note(self, start: int, end: int, now_ms: int) -> None:
        """Remember that [start, end) is whole."""
        if self._is_void:
            return
        touching = [each for each in self._parts if each.start <= end and start <= each.end]
        merged = _Part(
            min([start, *(each.start for each in touching)]),
            max([end, *(each.end for each in touching)]),
            min([now_ms, *(each.checked_ms for each in touching)]),
        )
        self._parts = [*(each for each in self._parts if each not in touching), merged][-MAX_PARTS:]

    def covers(self, start: int, end: int, oldest_ms: int) -> bool:
        """Return whether all of [start, end) was checked after `oldest_ms`."""
        self._parts = [each for each in self._parts if each.checked_ms > oldest_ms]
        return any(each.start <= start and end <= each.end for each in self._parts)

    def void(self) -> None:
        """Forget everything for good: the bytes that were checked are not those that are read now."""
        self._is_void = True
        self._parts = []


class VerifiedParts:
    """The checked parts of all segments, the least recently used segment first. Only for the loop."""

    def __init__(self, clock: Clock, ttl_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._segments: OrderedDict[uuid.UUID, SegmentParts] = OrderedDict()

    def of(self, segment_id: uuid.UUID) -> SegmentParts:
        """Return the parts of a segment, to be used for as long as the same bytes are read."""
        parts = self._segments.setdefault(segment_id, SegmentParts())
        self._segments.move_to_end(segment_id)
        if len(self._segments) > MAX_SEGMENTS:
            self._segments.popitem(last=False)[1].void()
        return parts

    def covers(self, parts: SegmentParts, start: int, end: int) -> bool:
        """Return whether bytes were checked recently."""
        return parts.covers(start, end, self._clock.monotonic_ms() - self._ttl_ms())

    def note(self, parts: SegmentParts, start: int, end: int) -> None:
        """Remember that bytes are whole."""
        parts.note(start, end, self._clock.monotonic_ms())

    def forget(self, segment_id: uuid.UUID) -> None:
        """Forget a segment that is deleted, or whose bytes are read again."""
        parts = self._segments.pop(segment_id, None)
        if parts is not None:
            parts.void()
