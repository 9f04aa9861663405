"""Abandoned uploads: of a broker that stopped or lost the partition. PURE.

A segment that stays in COPY_SEGMENT_STARTED while this broker leads its partition and does not upload it was abandoned,
by another broker or by an earlier run of this one. Its uploader may still be running, so it gets a grace period from
the moment when this leader first saw it: clocks of other brokers are not trusted. The upload may end even after its
deletion. Therefore the data is deleted once more after another grace period, and only then the deletion is finished:
this survives a crash.
"""

from __future__ import annotations

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
        """Return the uploads whose grace period is over. The time is monotonic."""
        begun = {
            segment.segment_id: segment
            for segment in segments
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED and segment.segment_id not in in_flight
        }
        self._first_seen_ms = {segment_id: self._first_seen_ms.get(segment_id, now_ms) for segment_id in begun}
        return [
            segment for segment_id, segment in begun.items() if now_ms - self._first_seen_ms[segment_id] >= grace_ms
        ]


class DeletionWatch:
    """When the leader of one partition deleted the data of segments whose deletion is begun and not finished.

    Such a segment may be an upload that is still running: its state does not show that. So its deletion is finished
    only after a grace period, with the data deleted once more; a leader that takes over does the same.
    """

    __slots__ = ("_deleted_ms",)

    def __init__(self) -> None:
        self._deleted_ms: dict[RemoteLogSegmentId, int] = {}

    def keep(self, segment_ids: Set[RemoteLogSegmentId]) -> None:
        """Forget all others, which are gone."""
        self._deleted_ms = {each: at_ms for each, at_ms in self._deleted_ms.items() if each in segment_ids}

    def note_deleted(self, segment_id: RemoteLogSegmentId, now_ms: int) -> None:
        """Note that the data was deleted."""
        self._deleted_ms[segment_id] = now_ms

    def is_waiting(self, segment_id: RemoteLogSegmentId) -> bool:
        """Return whether the data was deleted, and may have to be deleted again."""
        return segment_id in self._deleted_ms

    def is_due(self, segment_id: RemoteLogSegmentId, *, now_ms: int, grace_ms: int) -> bool:
        """Return whether the deletion may be finished."""
        return self.is_waiting(segment_id) and now_ms - self._deleted_ms[segment_id] >= grace_ms
