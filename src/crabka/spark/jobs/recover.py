"""Reads from a bucket alone what a broker needs to serve its topics again.

Only names and small objects are read: the ends of segments, and of each partition's newest segment the leader epochs
and the producers. The node writes a data dir from the result; Spark code does not know the node.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from crabka.errors import ConfigError
from crabka.remote.layout import object_path
from crabka.remote.recovery import RecoverablePartition, RecoveryPlan, group_by_topic
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata, TopicIdPartition, newest_segment
from crabka.spark.access.tier_store import ObjectMissingError, open_tier_store
from crabka.spark.errors import TierReadError
from crabka.spark.plan.catalog.listing_catalog import load_listing_catalog
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import TierPart, choose_parts, epoch_ends_of


def plan_recovery(
    tier_uri: str,
    *,
    wants: Callable[[str], bool] = lambda _topic: True,
    topic_ids: Mapping[str, uuid.UUID] | None = None,
    partition_counts: Mapping[str, int] | None = None,
    storage: Mapping[str, str] | None = None,
) -> RecoveryPlan:
    """Return what can be recovered of the wanted topics.

    `topic_ids` chooses among topics of one name, `partition_counts` names topics with more partitions than the tier
    knows, `storage` has further settings of the store. Raises ConfigError, TierReadError, RemoteBackendError.
    """
    objects = SegmentObjects(open_tier_store(tier_uri, storage or {}))
    catalog = load_listing_catalog(objects, wants)
    chosen = [
        (partition, segments)
        for partition, segments in catalog.segments.items()
        if partition.topic_id == (topic_ids or {}).get(partition.topic, partition.topic_id)
    ]
    _require_one_id([partition for partition, _ in chosen])
    partitions = objects.for_all(chosen, lambda found: _recoverable(objects, *found))
    try:
        topics = group_by_topic(partitions, partition_counts or {})
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return RecoveryPlan(topics, catalog.ignored)


def _require_one_id(partitions: Sequence[TopicIdPartition]) -> None:
    found: dict[str, uuid.UUID] = {}
    for partition in partitions:
        known = found.setdefault(partition.topic, partition.topic_id)
        if known != partition.topic_id:
            raise ConfigError(
                f"the tier has two topics {partition.topic}, with the ids {known} and {partition.topic_id}; choose one"
            )


def _recoverable(
    objects: SegmentObjects, partition: TopicIdPartition, segments: Sequence[RemoteLogSegmentMetadata]
) -> RecoverablePartition:
    newest = newest_segment(segments)
    if newest is None:
        raise TierReadError(f"the tier has no segment of {partition}")
    epochs = objects.epochs(newest)
    parts = choose_parts(segments, epoch_ends_of(epochs))
    path = object_path(newest, IndexType.PRODUCER_SNAPSHOT)
    try:
        snapshot = objects.store.get(path)
    except ObjectMissingError:
        raise TierReadError(f"{path} is not in {objects.store.location} any more") from None
    log_start_offset = parts[0].start
    return RecoverablePartition(
        topic_id_partition=partition,
        log_start_offset=log_start_offset,
        end_offset=newest.end_offset + 1,
        leader_epochs=_from_log_start([entry for entry in epochs if entry[1] <= newest.end_offset], log_start_offset),
        producer_snapshot=snapshot,
        segments=tuple(sorted(segments, key=lambda each: (each.start_offset, each.end_offset))),
        gaps=_gaps(parts),
    )


def _from_log_start(epochs: Sequence[tuple[int, int]], log_start_offset: int) -> tuple[tuple[int, int], ...]:
    """Return the epochs so that every offset from the log start on has one.

    A checkpoint begins with the log start of its time: where records were deleted before the copy, the first epoch
    seems to begin later than the older segments have it, and a broker finds no epoch, hence no segment, for what they
    hold. Only epochs of this checkpoint count for the log start, so that it lies in the first of them.
    """
    first_epoch, first_offset = epochs[0]
    return (first_epoch, min(first_offset, log_start_offset)), *epochs[1:]


def _gaps(parts: Sequence[TierPart]) -> tuple[tuple[int, int], ...]:
    return tuple((before.end, after.start) for before, after in pairwise(parts) if before.end < after.start)
