"""Surveys: the partitions that the options choose, how far they reach, and which parts the tier has."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.errors import ConfigError
from crabka.ids import ZERO_UUID, TopicPartition, uuid_to_text
from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition, newest_segment
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.errors import lose
from crabka.spark.options.selection import Assign, Strategy, Subscribe, SubscribePattern
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.catalog.listing_catalog import load_listing_catalog
from crabka.spark.plan.catalog.lost_segments import LostSegment, find_lost_segments
from crabka.spark.plan.catalog.segment_objects import SegmentObjects
from crabka.spark.plan.catalog.segments import (
    TierCatalog,
    TierPart,
    choose_parts,
    epoch_ends_of,
    is_in_history,
    segment_epochs,
)
from crabka.spark.plan.catalog.snapshot_catalog import load_snapshot_catalog
from crabka.spark.plan.catalog.topic_catalog import load_topic_catalog
from crabka.spark.plan.context import PlanContext, is_tier_only, with_retries

if TYPE_CHECKING:
    from crabka.clients.cluster.metadata import TopicMetadata


@dataclass(frozen=True, slots=True)
class PartitionSurvey:
    """A partition: its first offset, the offset after its last one, and what the tier has of it, in order."""

    topic_id: uuid.UUID | None
    earliest: int
    latest: int
    parts: tuple[TierPart, ...] = ()

    @property
    def id_text(self) -> str | None:
        """The id of the topic as Kafka writes it."""
        return None if self.topic_id is None else uuid_to_text(self.topic_id)


@dataclass(frozen=True, slots=True)
class Survey:
    """All chosen partitions, and what of the tier does not count."""

    partitions: Mapping[TopicPartition, PartitionSurvey]
    ignored: tuple[str, ...] = ()
    # Segments that the tier had and that cannot be read, for reads that take nothing from brokers.
    lost: Mapping[TopicPartition, tuple[LostSegment, ...]] = field(default_factory=dict)


def make_survey(context: PlanContext, only: Collection[TopicPartition] | None = None) -> Survey:
    """Survey the partitions that the options choose, or some of them.

    Raises ConfigError for topics that do not exist.
    """
    if context.session is None:
        return _survey_of_tier(context, only)
    survey = _survey_of_cluster(context, context.session, only)
    return _cut_to_tier(survey) if context.options.read_mode == "tier" else survey


def wants_topic(strategy: Strategy, topic: str) -> bool:
    """Return whether a topic is among the chosen ones."""
    match strategy:
        case Assign(partitions):
            return any(partition.topic == topic for partition in partitions)
        case Subscribe(topics):
            return topic in topics
        case SubscribePattern():
            return strategy.matches(topic)


def _wants_partition(strategy: Strategy, partition: TopicPartition) -> bool:
    return partition in strategy.partitions if isinstance(strategy, Assign) else True


def _missing_topics(strategy: Strategy, known: Collection[str]) -> list[str]:
    """Return the topics that are chosen by their names and do not exist."""
    match strategy:
        case Assign(partitions):
            named = {partition.topic for partition in partitions}
        case Subscribe(topics):
            named = set(topics)
        case SubscribePattern():
            return []
    return sorted(named - set(known))


def _require_topics(strategy: Strategy, known: Collection[str], where: str) -> None:
    if missing := _missing_topics(strategy, known):
        raise ConfigError(f"{where} has no topic {', '.join(missing)}")


def chosen_catalog(context: PlanContext) -> TierCatalog:
    """Return all that is known of the tier of the chosen topics. Raises ConfigError for topics that do not exist."""
    if context.session is None:
        return _catalog_without_brokers(context)
    if context.objects is None and context.options.tier_metadata != "topic":
        return TierCatalog()
    return _catalog(context, _chosen_partitions(context, context.session, None))


def _survey_of_cluster(context: PlanContext, session: BrokerSession, only: Collection[TopicPartition] | None) -> Survey:
    ids = _chosen_partitions(context, session, only)
    earliest, latest = _bounds(context, session, list(ids))
    catalog = _catalog(context, ids) if context.objects is not None else TierCatalog()
    parts = _parts_by_leaders(context, session, catalog, ids)
    partitions = {
        partition: PartitionSurvey(topic_id, earliest[partition], latest[partition], tuple(parts.get(partition, ())))
        for partition, topic_id in ids.items()
    }
    lost: Mapping[TopicPartition, tuple[LostSegment, ...]] = {}
    if is_tier_only(context.options):
        lost = find_lost_segments(context, catalog, _identified(ids))
    return Survey(partitions, catalog.ignored, lost)


def _identified(ids: Mapping[TopicPartition, uuid.UUID | None]) -> list[TopicIdPartition]:
    return [TopicIdPartition(each, *partition) for partition, each in ids.items() if each is not None]


def _chosen_partitions(
    context: PlanContext, session: BrokerSession, only: Collection[TopicPartition] | None
) -> dict[TopicPartition, uuid.UUID | None]:
    """Return the partitions of the cluster that the options choose, with the ids of their topics."""
    options = context.options
    topics = _topics(options, session)
    _require_topics(options.strategy, topics, "the cluster")
    ids: dict[TopicPartition, uuid.UUID | None] = {}
    for name, topic in topics.items():
        if topic.is_internal or not wants_topic(options.strategy, name):
            continue
        topic_id = None if topic.topic_id == ZERO_UUID else topic.topic_id
        _check_id(context, name, topic_id)
        for index in topic.partitions:
            partition = TopicPartition(name, index)
            if _wants_partition(options.strategy, partition) and (only is None or partition in only):
                ids[partition] = topic_id
    return ids


def _topics(options: SourceOptions, session: BrokerSession) -> Mapping[str, TopicMetadata]:
    """Return all topics; a topic that was just created is waited for, since not every broker knows it at once."""
    topics = with_retries(options, session.topics)
    for _ in range(options.offset_tries - 1):
        if not _missing_topics(options.strategy, topics):
            break
        time.sleep(options.offset_retry_interval_ms / 1000)
        topics = with_retries(options, session.topics)
    return topics


def _cut_to_tier(survey: Survey) -> Survey:
    """Return the survey of a read that takes nothing from brokers: partitions reach as far as the tier does."""
    cut: dict[TopicPartition, PartitionSurvey] = {}
    for partition, each in survey.partitions.items():
        first = each.parts[0].start if each.parts else each.earliest
        last = each.parts[-1].end if each.parts else first
        earliest = max(each.earliest, first)
        cut[partition] = PartitionSurvey(each.topic_id, earliest, max(min(each.latest, last), earliest), each.parts)
    return Survey(cut, survey.ignored, survey.lost)


def _bounds(
    context: PlanContext, session: BrokerSession, partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    committed = context.options.read_committed

    def ask(position: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, position)
        return with_retries(context.options, lambda: session.offsets(wanted, read_committed=committed))

    latest = ask(LATEST)
    earliest = ask(EARLIEST)
    # What is deleted in between makes the read shorter, never one that begins after its end.
    return earliest, {partition: max(end, earliest[partition]) for partition, end in latest.items()}


def _check_id(context: PlanContext, topic: str, topic_id: uuid.UUID | None) -> None:
    wanted = context.options.tier_topic_id
    if wanted is not None and topic_id != wanted:
        found = "unknown" if topic_id is None else uuid_to_text(topic_id)
        raise ConfigError(
            f"the topic {topic} of the cluster has the id {found}; to read that of tier.topicId, leave out "
            "kafka.bootstrap.servers and set tier.metadata to listing"
        )


def _catalog(context: PlanContext, ids: Mapping[TopicPartition, uuid.UUID | None]) -> TierCatalog:
    """Return the segments of partitions, by the way that the options choose."""
    if context.options.tier_metadata == "topic":
        assert context.session is not None  # noqa: S101 - the options were checked
        return load_topic_catalog(context.session, _identified(ids))
    topics = {partition.topic for partition in ids}
    return _catalog_without_brokers(context, topics)


def _catalog_without_brokers(context: PlanContext, topics: Collection[str] | None = None) -> TierCatalog:
    options = context.options

    def wants(topic: str) -> bool:
        return wants_topic(options.strategy, topic) and (topics is None or topic in topics)

    if options.tier_snapshot is not None and options.tier_metadata == "snapshot":
        return load_snapshot_catalog(options.tier_snapshot, wants)
    assert context.objects is not None  # noqa: S101 - the options were checked
    return load_listing_catalog(context.objects, wants)


def _parts_by_leaders(
    context: PlanContext,
    session: BrokerSession,
    catalog: TierCatalog,
    ids: Mapping[TopicPartition, uuid.UUID | None],
) -> dict[TopicPartition, list[TierPart]]:
    """Return what counts of the segments by the history of the leaders, which know every epoch of their log."""
    segments = {
        partition: found
        for partition, topic_id in ids.items()
        if topic_id is not None and (found := catalog.of(topic_id, *partition))
    }
    epochs = {partition: segment_epochs(found) for partition, found in segments.items()}
    ends: dict[TopicPartition, dict[int, int]] = {partition: {} for partition in segments}
    for turn in range(max(map(len, epochs.values()), default=0)):
        asked = {partition: known[turn] for partition, known in epochs.items() if turn < len(known)}
        for partition, answer in with_retries(context.options, partial(session.epoch_ends, asked)).items():
            # A leader that does not know an epoch answers with an older one.
            if answer.leader_epoch == asked[partition]:
                ends[partition][answer.leader_epoch] = answer.end_offset
    return {partition: choose_parts(found, ends[partition]) for partition, found in segments.items()}


def _survey_of_tier(context: PlanContext, only: Collection[TopicPartition] | None) -> Survey:
    options, objects = context.options, context.objects
    assert objects is not None  # noqa: S101 - the options were checked
    catalog = _catalog_without_brokers(context)
    topic_ids = catalog.topic_ids(options.tier_topic_id)
    lost = _lost_without_brokers(context, catalog)
    _require_topics(options.strategy, topic_ids, "the tier")
    chosen: list[TopicIdPartition] = []
    for partition in catalog.segments:
        place = partition.topic_partition
        if topic_ids.get(partition.topic) != partition.topic_id or (only is not None and place not in only):
            continue
        if _wants_partition(options.strategy, place):
            chosen.append(partition)
    found = objects.for_all(chosen, lambda each: _survey_partition(context, objects, catalog.segments[each]))
    surveys = {partition.topic_partition: survey for partition, (survey, _) in zip(chosen, found, strict=True)}
    return Survey(surveys, catalog.ignored + tuple(reason for _, ignored in found for reason in ignored), lost)


def _lost_without_brokers(
    context: PlanContext, catalog: TierCatalog
) -> Mapping[TopicPartition, tuple[LostSegment, ...]]:
    """Return the segments that are lost. Raises DataLossError for a partition of which nothing else is there."""
    options = context.options
    chosen = {
        partition
        for partition in (each.segment_id.topic_id_partition for each in catalog.unusable)
        if _wants_partition(options.strategy, partition.topic_partition)
        and options.tier_topic_id in (None, partition.topic_id)
    }
    lost = find_lost_segments(context, catalog, chosen)
    complete = {partition.topic_partition for partition in catalog.segments}
    for partition, segments in lost.items():
        if partition not in complete:
            lose(options, segments[0].error)
    return lost


def _survey_partition(
    context: PlanContext, objects: SegmentObjects, segments: Collection[RemoteLogSegmentMetadata]
) -> tuple[PartitionSurvey, list[str]]:
    """Return what the tier alone says of a partition: the epochs of its newest segment are its history.

    The second value names the segments that are no part of that, and why they do not count.
    """
    newest = newest_segment(segments)
    assert newest is not None  # noqa: S101 - a partition of the catalog has segments
    history = epoch_ends_of(objects.epochs(newest))
    parts = choose_parts(segments, history)
    ignored = [
        f"segment {each.start_offset:020d} of {each.topic_id_partition}: its leader epochs are not in the history of "
        "the newest segment"
        for each in segments
        if not is_in_history(each, history)
    ]
    topic_id = newest.topic_id_partition.topic_id
    if not parts:
        return PartitionSurvey(topic_id, 0, 0), ignored
    latest = parts[-1].end
    if context.options.read_committed:
        first_open = objects.first_open_transaction(parts[-1].segment)
        # It may have begun before all that the tier still has.
        latest = latest if first_open is None else max(min(latest, first_open), parts[0].start)
    return PartitionSurvey(topic_id, parts[0].start, latest, tuple(parts)), ignored
