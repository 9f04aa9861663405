"""Segments of a listing that lack objects: which of them are lost, and which are being copied or deleted.

The rule, for a segment that cannot be used, in this order:

- The metadata topic, where there are brokers, says that the segment is finished: it is lost, else it does not count.
- Complete segments have its offsets, up to the next one or from the same start on: it is a copy that was made anew.
- An exported snapshot of the metadata has it as finished: it is lost, unless a second look shows that it changes.
- It is the last one, and its newest object came less than the grace period ago: it is being copied.
- A second look, a moment later, shows that its objects have changed: it is being copied or deleted.
- All others are lost. A deletion that a broker did not finish before it went away looks the same.

A lost segment ends the reads that want its rows.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from crabka.formats.object_names import parse_object_name
from crabka.ids import TopicPartition
from crabka.remote.layout import partition_directory
from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from crabka.spark.access.tier_store import present
from crabka.spark.errors import DataLossError
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierCatalog, UnusableSegment
from crabka.spark.plan.catalog.snapshot_catalog import load_snapshot_catalog
from crabka.spark.plan.catalog.topic_catalog import load_topic_catalog
from crabka.spark.plan.context import PlanContext

logger = logging.getLogger(__name__)

LOOK_AGAIN_AFTER_S: Final = 1.0
# How long the copy of a segment may take; as long as an audit waits.
COPY_GRACE_MS: Final = 3_600_000

Segments = Sequence[RemoteLogSegmentMetadata]


class LostSegment(NamedTuple):
    """A segment that the tier had and that cannot be read, between the complete ones around it."""

    segment: UnusableSegment
    is_first: bool
    # Where the next complete segment begins; None if there is none.
    next_offset: int | None

    @property
    def error(self) -> DataLossError:
        """The error of a read that wants its rows."""
        return DataLossError(
            f"{self.segment.object_name} is missing or damaged in the tier: {self.segment}, and nothing suggests that "
            "the segment is being copied or deleted now"
        )

    def concerns(self, wanted: range, earliest: int, latest: int) -> bool:
        """Return whether a read wants its rows; `earliest` and `latest` are those of the complete segments.

        A read from the first complete segment on, or up to the end of the last one, would have what is beyond that.
        """
        if self.next_offset is None:
            return wanted.stop >= latest
        if self.is_first:
            return wanted.start <= earliest and bool(wanted)
        return wanted.start < self.next_offset and wanted.stop > self.segment.base_offset


def find_lost_segments(
    context: PlanContext, catalog: TierCatalog, partitions: Collection[TopicIdPartition] | None = None
) -> dict[TopicPartition, tuple[LostSegment, ...]]:
    """Return the segments of a listing that are lost, of some partitions or of all."""
    doubtful = [
        each for each in catalog.unusable if partitions is None or each.segment_id.topic_id_partition in partitions
    ]
    if not doubtful or context.objects is None:
        return {}
    doubtful = _by_metadata(context, [each for each in doubtful if not _is_copied_anew(each, _around(catalog, each))])
    exported = _exported(context) if doubtful else set()
    suspects = [
        each
        for each in doubtful
        if context.session is not None
        or each.segment_id.id in exported
        or not _may_be_copied(each, _around(catalog, each))
    ]
    lost: dict[TopicPartition, list[LostSegment]] = {}
    for each in _unchanged(context.objects, suspects):
        complete = _around(catalog, each)
        later = [segment.start_offset for segment in complete if segment.start_offset > each.base_offset]
        is_first = all(segment.start_offset > each.base_offset for segment in complete)
        found = LostSegment(each, is_first, min(later, default=None))
        lost.setdefault(each.segment_id.topic_id_partition.topic_partition, []).append(found)
    return {partition: tuple(found) for partition, found in lost.items()}


def _around(catalog: TierCatalog, segment: UnusableSegment) -> Segments:
    return catalog.segments.get(segment.segment_id.topic_id_partition, ())


def _is_copied_anew(segment: UnusableSegment, complete: Segments) -> bool:
    """Return whether complete segments have the offsets of one that is not, as far as they can be known."""
    base = segment.base_offset
    if any(each.start_offset == base for each in complete):
        return True
    later = min((each.start_offset for each in complete if each.start_offset > base), default=None)
    if later is None:
        return False
    reach = max((each.end_offset + 1 for each in complete if each.start_offset < base), default=0)
    return reach >= later


def _by_metadata(context: PlanContext, doubtful: Sequence[UnusableSegment]) -> list[UnusableSegment]:
    """Return those that metadata, where there is any, does not clear of being lost."""
    if context.session is not None and doubtful:
        wanted = {each.segment_id.topic_id_partition for each in doubtful}
        finished = _ids(load_topic_catalog(context.session, wanted))
        return [each for each in doubtful if each.segment_id.id in finished]
    return list(doubtful)


def _exported(context: PlanContext) -> set[uuid.UUID]:
    """Return the segments that an exported snapshot has as finished, if the options name one."""
    place = context.options.tier_snapshot
    return set() if place is None else _ids(load_snapshot_catalog(place, lambda _topic: True))


def _may_be_copied(segment: UnusableSegment, complete: Segments) -> bool:
    is_last = all(each.start_offset < segment.base_offset for each in complete)
    return is_last and segment.newest_ms > time.time() * 1000 - COPY_GRACE_MS


def _ids(catalog: TierCatalog) -> set[uuid.UUID]:
    return {segment.segment_id.id for found in catalog.segments.values() for segment in found}


def _unchanged(objects: SegmentObjects, suspects: Sequence[UnusableSegment]) -> list[UnusableSegment]:
    """Return those whose objects are still the same a moment later."""
    if not suspects:
        return []
    first = _objects_of(objects, suspects)
    time.sleep(LOOK_AGAIN_AFTER_S)
    second = _objects_of(objects, suspects)
    for each in suspects:
        if first.get(each.segment_id.id) != second.get(each.segment_id.id):
            logger.info("%s, and is being copied or deleted", each)
    return [each for each in suspects if first.get(each.segment_id.id) == second.get(each.segment_id.id) is not None]


def _objects_of(objects: SegmentObjects, suspects: Iterable[UnusableSegment]) -> dict[uuid.UUID, dict[str, int]]:
    """Return the names and sizes of the present objects of segments."""
    wanted = {each.segment_id.id for each in suspects}
    directories = {partition_directory(each.segment_id.topic_id_partition) for each in suspects}
    found: dict[uuid.UUID, dict[str, int]] = {}
    for directory in directories:
        for key, (size_bytes, _) in present(objects.store.list(directory)).items():
            try:
                name = parse_object_name(key.rpartition("/")[2])
            except ValueError:
                continue  # such as the temporary files of a copy
            if name.segment_id in wanted:
                found.setdefault(name.segment_id, {})[key] = size_bytes
    return found
