"""Uploads that nobody will finish: begun by a broker that stopped or lost the partition. PURE.

A segment that stays in COPY_SEGMENT_STARTED while this broker leads its partition and does not upload it itself was
left behind, by another broker or by an earlier run of this one. Its uploader may still be at work, so it is given a
grace period, counted from when this leader first saw it: clocks of other brokers are not to be trusted. The upload may
end even later than its deletion; therefore the data is deleted once more after another such period.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from crabka.remote.segments import RemoteLogSegmentState

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from crabka.remote.segments import RemoteLogSegmentId, RemoteLogSegmentMetadata


class LeftoverWatch:
    """Since when the leader of one partition has seen uploads that are not its own."""

    __slots__ = ("_first_seen_ms",)

    def __init__(self) -> None:
        self._first_seen_ms: dict[RemoteLogSegmentId, int] = {}

    def abandoned(
        self,
        segments: Iterable[RemoteLogSegmentMetadata],
        *,
        in_flight: Set[RemoteLogSegmentId],
        now_ms: int,
        grace_ms: int,
    ) -> list[RemoteLogSegmentMetadata]:
        """Return the uploads that were given time enough. The time never goes back, but has no date."""
        begun = {
            segment.segment_id: segment
            for segment in segments
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED and segment.segment_id not in in_flight
        }
        self._first_seen_ms = {segment_id: self._first_seen_ms.get(segment_id, now_ms) for segment_id in begun}
        return [
            segment for segment_id, segment in begun.items() if now_ms - self._first_seen_ms[segment_id] >= grace_ms
        ]


class SecondDeletions:
    """Segments whose data is to be deleted once more, when that is due. They are few, and a crash may forget them."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: deque[tuple[int, RemoteLogSegmentMetadata]] = deque()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, segment: RemoteLogSegmentMetadata, *, due_ms: int) -> None:
        """Delete the data again at that time; times are given in rising order."""
        self._due.append((due_ms, segment))

    def take_due(self, now_ms: int) -> list[RemoteLogSegmentMetadata]:
        """Return what is due, and forget it."""
        taken = []
        while self._due and self._due[0][0] <= now_ms:
            taken.append(self._due.popleft()[1])
        return taken
