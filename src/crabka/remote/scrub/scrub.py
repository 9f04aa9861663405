"""A whole scrub of a partition, and what of a scrub is still true when it ends.

A tier is scrubbed while brokers keep copying and deleting. So: read the metadata, list, read the content, read the
metadata again, and keep the faults of what did not change in between.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.leader_epochs import EpochLineage, Epochs, format_epochs
from crabka.remote.errors import RemoteStorageError
from crabka.remote.scrub.faults import TierFault, TierFaultKind
from crabka.remote.scrub.lineage import PartitionBounds, check_lineage, overlaps, predecessors
from crabka.remote.scrub.segment_check import Fingerprints, OnBytes, SegmentFindings, check_segment
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata, newest_segment

if TYPE_CHECKING:
    from crabka.remote.segments import TopicIdPartition
    from crabka.remote.storage_manager import RemoteStorageManager

Segments = Mapping[uuid.UUID, object]
"""What was known of segments at a time, by their ids."""


class ReadSegment(Protocol):
    """A segment that was read, with what is to be compared with others."""

    @property
    def metadata(self) -> RemoteLogSegmentMetadata:
        """The segment."""
        ...

    @property
    def fingerprints(self) -> Fingerprints:
        """The batches that others have too."""
        ...

    @property
    def checkpoint(self) -> Epochs:
        """The leader epochs that lie beside it, none if they cannot be read."""
        ...


class SegmentMap(Protocol):
    """`map`, or one that works on several segments at a time."""

    def __call__(
        self,
        function: Callable[[RemoteLogSegmentMetadata], SegmentFindings],
        segments: Iterable[RemoteLogSegmentMetadata],
        /,
    ) -> Iterable[SegmentFindings]:
        """Return the findings in the order of the segments."""
        ...


def verify_partition(
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    segments: Sequence[RemoteLogSegmentMetadata],
    bounds: PartitionBounds | None = None,
) -> list[TierFault]:
    """Return gaps and contradictions between the finished segments of a partition, without reading them."""
    return check_lineage(partition, segments, fetch_lineage(storage, segments), bounds)


def scrub_partition(
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    segments: Sequence[RemoteLogSegmentMetadata],
    *,
    bounds: PartitionBounds | None = None,
    on_bytes: OnBytes = lambda _count: None,
    each: SegmentMap = map,
) -> list[TierFault]:
    """Read all finished segments of a partition as a whole and return everything that is wrong with them."""
    faults = check_contents(storage, segments, on_bytes=on_bytes, each=each)
    return faults + verify_partition(storage, partition, segments, bounds)


def check_contents(
    storage: RemoteStorageManager,
    segments: Sequence[RemoteLogSegmentMetadata],
    *,
    on_bytes: OnBytes = lambda _count: None,
    each: SegmentMap = map,
) -> list[TierFault]:
    """Read all finished segments of a partition; return what is wrong in them, and where two of them differ."""
    ordered = sorted(segments, key=lambda segment: (segment.start_offset, segment.event_timestamp_ms))
    check = partial(_check_one, storage, overlaps(ordered), predecessors(ordered), on_bytes)
    findings = list(each(check, ordered))
    faults = [fault for found in findings for fault in found.faults]
    return faults + compare_copies(findings) + compare_checkpoints(findings)


def still_true(faults: Iterable[TierFault], before: Segments, after: Segments) -> list[TierFault]:
    """Return the faults but those of segments that brokers changed while the tier was read."""
    return [fault for fault in faults if fault.segment_id is None or _is_same(fault.segment_id.id, before, after)]


def fetch_lineage(storage: RemoteStorageManager, segments: Sequence[RemoteLogSegmentMetadata]) -> Epochs | None:
    """Return the leader epochs up to the end of the newest segment, None if the tier does not have them."""
    last = newest_segment(segments)
    if last is None:
        return None
    try:
        return tuple(decode_epochs(storage.fetch_index(last, IndexType.LEADER_EPOCH)))
    except (RemoteStorageError, CorruptDataError):
        return None


def _check_one(
    storage: RemoteStorageManager,
    shared: dict[RemoteLogSegmentMetadata, range],
    before: dict[RemoteLogSegmentMetadata, RemoteLogSegmentMetadata],
    on_bytes: OnBytes,
    segment: RemoteLogSegmentMetadata,
) -> SegmentFindings:
    remember = shared.get(segment, range(0))
    return check_segment(storage, segment, on_bytes=on_bytes, remember=remember, before=before.get(segment))


def compare_copies(findings: Iterable[ReadSegment]) -> list[TierFault]:
    """Return batches that two segments of a partition have differently, though in the same epoch."""
    faults: list[TierFault] = []
    known: dict[tuple[int, int], tuple[ReadSegment, tuple[int, int]]] = {}
    for found in findings:
        for key, fingerprint in found.fingerprints.items():
            first, other = known.setdefault(key, (found, fingerprint))
            if other != fingerprint:
                faults.append(
                    TierFault(
                        kind=TierFaultKind.COPIES_DIFFER,
                        detail=f"offset {key[1]} of epoch {key[0]} is not as in {first.metadata.segment_id}",
                        partition=found.metadata.topic_id_partition,
                        segment_id=found.metadata.segment_id,
                    )
                )
                break
    return faults


def compare_checkpoints(findings: Iterable[ReadSegment]) -> list[TierFault]:
    """Return segments of a partition whose leader epochs contradict those of the newest one, in what both know.

    If all others do, the newest one is reported.
    """
    readable = {found.metadata: found for found in findings if found.checkpoint}
    last = newest_segment(readable)
    if last is None:
        return []
    end = readable.pop(last)
    lineage = EpochLineage(end.checkpoint)
    wrong = [found for found in readable.values() if not lineage.agrees_with(EpochLineage(found.checkpoint))]
    if len(wrong) == len(readable) > 1:
        return [_contradiction(end, wrong[0])]
    return [_contradiction(found, end) for found in wrong]


def _contradiction(found: ReadSegment, other: ReadSegment) -> TierFault:
    said = f"{IndexType.LEADER_EPOCH.value}: it says {format_epochs(found.checkpoint)}"
    return TierFault(
        kind=TierFaultKind.BAD_INDEX,
        detail=f"{said}, that of {other.metadata.segment_id} {format_epochs(other.checkpoint)}",
        partition=found.metadata.topic_id_partition,
        segment_id=found.metadata.segment_id,
    )


def _is_same(segment_id: uuid.UUID, before: Segments, after: Segments) -> bool:
    return before.get(segment_id) == after.get(segment_id)
