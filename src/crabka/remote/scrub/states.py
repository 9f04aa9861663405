"""Finds segments that stay in a state that should pass, and those whose topic is gone."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from crabka.remote.removal_notice import is_committed_notice
from crabka.remote.scrub.faults import TierFault, TierFaultKind
from crabka.remote.segments import RemoteLogSegmentState

if TYPE_CHECKING:
    from crabka.remote.scrub.history import TierHistory
    from crabka.remote.segments import RemoteLogSegmentMetadata

_STUCK: Final = {
    RemoteLogSegmentState.COPY_SEGMENT_STARTED: TierFaultKind.STUCK_COPY,
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED: TierFaultKind.STUCK_DELETE,
}


def check_states(
    history: TierHistory, *, now_ms: int, grace_ms: int, topic_ids: Collection[uuid.UUID] | None = None
) -> list[TierFault]:
    """Return what has been under way for longer than the grace period.

    With the ids of all topics, segments of topics that are gone are found too.
    """
    latest_ms = now_ms - grace_ms
    faults = list(history.faults)
    for segment in history.segments.values():
        if segment.event_timestamp_ms <= latest_ms:
            faults += _check_old(segment, now_ms, topic_ids)
    for partition, step in history.partition_deletions.items():
        if step.event_timestamp_ms <= latest_ms:
            detail = f"is {step.state.name} since {_age(now_ms - step.event_timestamp_ms)}"
            faults.append(TierFault(kind=TierFaultKind.STUCK_DELETE, detail=detail, partition=partition))
    return faults


def _check_old(
    segment: RemoteLogSegmentMetadata, now_ms: int, topic_ids: Collection[uuid.UUID] | None
) -> Iterator[TierFault]:
    age = _age(now_ms - segment.event_timestamp_ms)
    kind = _STUCK.get(segment.state)
    detail = f"is {segment.state.name} since {age} by broker {segment.broker_id}"
    if is_committed_notice(segment):
        kind, detail = TierFaultKind.STUCK_DELETE, f"says since {age} that all segments of the partition go"
    if kind is None and topic_ids is not None and segment.topic_id_partition.topic_id not in topic_ids:
        kind, detail = TierFaultKind.ABANDONED_SEGMENT, f"is {segment.state.name}, but its topic is gone"
    if kind is not None:
        yield TierFault(kind=kind, detail=detail, partition=segment.topic_id_partition, segment_id=segment.segment_id)


def _age(duration_ms: int) -> str:
    minutes = duration_ms // 60_000
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
