"""Writes a range of a tier, or rows of a DataFrame, to a topic, exactly once.

One task per source partition, since the rows of a partition stay in order. Keys, headers and timestamps are kept.
A replay is identified by its name: run again under the same name it continues after the last committed transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.group_types import GroupOffset
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.jobs.replay_writer import (
    ReplayRow,
    ReplayTarget,
    ReplayWriter,
    SourceIdentity,
    committed_witness,
    in_transactions,
    rows_of_batch,
)
from crabka.spark.options.names import WHERE
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.history.divergence import ReadPosition
from crabka.spark.plan.history.histories import inspect_history
from crabka.spark.plan.history.witnesses import Chain, chains_from_json, chains_to_json, sample_offsets
from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import PlannedRange, ReadPlan, Split
from crabka.spark.read.split_reader import ReadSettings
from crabka.spark.session.row_tasks import ArrowTask, collect_rows, for_each_row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "headers")
RESULT_SCHEMA: Final = "partition int, records long, next_offset long"
_UNKNOWN_END: Final = -1
logger = logging.getLogger(__name__)
_ISOLATION: Final = "kafka.isolation.level"


@dataclass(frozen=True, slots=True)
class ReplayedPartition:
    """How many records were written now, and up to which offset of the source all are."""

    partition: int
    records: int
    next_offset: int


def replay_topic(spark: SparkSession, source: Mapping[str, str], target: ReplayTarget) -> list[ReplayedPartition]:
    """Replay what the options of the Spark source name: one topic, by default committed records alone.

    Raises ConfigError for a source of several topics and for a target with too few partitions.
    """
    given = {"includeHeaders": "true"} | dict(source)
    if not any(name.lower().endswith("isolation.level") for name in given):
        given[_ISOLATION] = "read_committed"
    options = SourceOptions.parse(given, streaming=False)
    if options.where:
        raise ConfigError(f"{WHERE} is not allowed here: a replay goes by offsets")
    plan = plan_read(options)
    topics = sorted({topic for topic, _ in plan.ranges})
    if len(topics) != 1:
        raise ConfigError(f"a replay has one source topic, not {len(topics)}: {', '.join(topics) or 'none'}")
    identity = SourceIdentity(topics[0], plan.topic_ids.get(topics[0]))
    parts = partition_splits(plan)
    has_progress = check_target(target, max(parts, default=0) + 1)
    chains = source_witnesses(options, plan, identity, target)
    settings = ReadSettings.of(options, COLUMNS)
    rows = [
        (index, json.dumps(split.as_json()), end, json.dumps(chains_to_json({index: chains.get(index, ())})))
        for index, (split, end) in parts.items()
    ]
    target = shared_rate(target, len(rows))
    schema = "partition int, split string, end_offset long, witnesses string"
    frame = spark.createDataFrame(rows, schema).repartition(max(len(rows), 1))
    done = frame.mapInArrow(_range_task(settings, target, identity), RESULT_SCHEMA)
    return replayed(done, target, has_progress=has_progress)


def replay_table(table: DataFrame, target: ReplayTarget, identity: SourceIdentity) -> list[ReplayedPartition]:
    """Replay rows with the columns of the Spark source: key, value, partition, offset, timestamp, headers.

    Raises ConfigError for a table without one of them.
    """
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ConfigError(f"the table has no column {missing[0]}: only raw values can be replayed")
    partitions = [row["partition"] for row in collect_rows(table.select("partition").distinct())]
    has_progress = check_target(target, max(partitions, default=0) + 1)
    target = shared_rate(target, len(partitions))
    ordered = (
        table.select(*COLUMNS)
        .repartition(max(len(partitions), 1), "partition")
        .sortWithinPartitions("partition", "offset")
    )
    done = ordered.mapInArrow(_row_task(target, identity), RESULT_SCHEMA)
    return replayed(done, target, has_progress=has_progress)


def source_witnesses(
    options: SourceOptions, plan: ReadPlan, identity: SourceIdentity, target: ReplayTarget
) -> dict[int, Chain]:
    """Verify that the source still has what was replayed before, and return witnesses of what is replayed now.

    Raises LogCutError, unless losses are accepted, and ConfigError for progress of another source.
    """
    positions: dict[TopicPartition, ReadPosition] = {}
    for partition, committed in _progress(target, [partition for _, partition in plan.ranges]).items():
        identity.require_same(committed, target.name)
        chain = committed_witness(committed)
        positions[TopicPartition(identity.topic, partition)] = ReadPosition(committed.offset, chain)
    offsets = {
        place: sample_offsets(max(start, positions[place].offset if place in positions else 0), end, len(plan.ranges))
        for place, (start, end) in ((TopicPartition(*names), offsets) for names, offsets in plan.ranges.items())
    }
    found = inspect_history(options, plan.survey, positions, offsets)
    return {place.partition: tuple(taken) for place, taken in found.witnesses.items()}


def _progress(target: ReplayTarget, partitions: Iterable[int]) -> dict[int, GroupOffset]:
    """Return how far earlier runs under the name came, by partition."""
    places = [TopicPartition(target.topic, partition) for partition in partitions]
    with BrokerSession(target.bootstrap, target.client) as session:
        found = session.run(lambda cluster: Admin(cluster).groups.list_offsets(target.name, places))
    return {place.partition: committed for place, committed in found.items()}


def partition_splits(plan: ReadPlan) -> dict[int, tuple[Split, int]]:
    """Return for each partition what is to be read of it, in order, and where that ends."""
    ranges: dict[int, list[PlannedRange]] = {}
    for split in plan.splits:
        for each in split.ranges:
            ranges.setdefault(each.partition, []).append(each)
    return {
        partition: (Split(tuple(sorted(ranges.get(partition, []), key=lambda each: each.start_offset))), end)
        for (_, partition), (_, end) in sorted(plan.ranges.items())
    }


def shared_rate(target: ReplayTarget, partition_count: int) -> ReplayTarget:
    """Return the target for one partition: together they keep the rate, also when all are written at once."""
    if target.records_per_second is None:
        return target
    return replace(target, records_per_second=target.records_per_second / max(partition_count, 1))


def rest_of(split: Split, next_offset: int) -> Split:
    """Return what a split has from an offset on."""
    return Split(
        tuple(
            replace(each, start_offset=max(each.start_offset, next_offset))
            for each in split.ranges
            if each.end_offset > next_offset
        )
    )


def check_target(target: ReplayTarget, partition_count: int) -> bool:
    """Return whether there is progress under the name of the replay.

    Raises ConfigError unless the target is there with enough partitions.
    """
    with BrokerSession(target.bootstrap, target.client) as session:
        topic = session.topics().get(target.topic)
        if topic is not None and len(topic.partitions) >= partition_count:
            return _has_progress(session, target, topic.partitions)
    if topic is None:
        raise ConfigError(f"there is no topic {target.topic} to replay to: create it first")
    raise ConfigError(
        f"topic {target.topic} has {len(topic.partitions)} partitions, the source {partition_count}: "
        "it needs as many, since progress is kept under their numbers"
    )


def _has_progress(session: BrokerSession, target: ReplayTarget, partitions: Iterable[int]) -> bool:
    places = [TopicPartition(target.topic, partition) for partition in partitions]
    if session.run(lambda cluster: Admin(cluster).groups.list_offsets(target.name, places)):
        return True
    starts = session.offsets(dict.fromkeys(places, EARLIEST), read_committed=False)
    ends = session.offsets(dict.fromkeys(places, LATEST), read_committed=False)
    if any(ends[place] > starts[place] for place in places):
        logger.warning(
            "Topic %s has records, and there is no progress of %s: all is replayed. If an earlier run under this name "
            "wrote them, its progress has expired (offsets.retention.minutes), and they will be there twice",
            target.topic,
            target.name,
        )
    return False


def _range_task(settings: ReadSettings, target: ReplayTarget, identity: SourceIdentity) -> ArrowTask:
    def replay(row: dict[str, Any]) -> pa.RecordBatch:
        from crabka.spark.read.split_reader import read_split

        chain = chains_from_json(json.loads(row["witnesses"]))[row["partition"]]
        with ReplayWriter(target, identity, row["partition"], chain) as writer:
            split = rest_of(Split.from_json(json.loads(row["split"])), writer.next_offset)
            read = (rows_of_batch(found) for found in read_split(split, settings))
            count = sum(writer.write(rows, end) for rows, end in in_transactions(read, target, row["end_offset"]))
            return result_batch(row["partition"], count, writer.next_offset)

    return for_each_row(replay)


def _row_task(target: ReplayTarget, identity: SourceIdentity) -> ArrowTask:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition, group in groupby(_by_partition(batches), key=lambda found: found[0]):
            with ReplayWriter(target, identity, partition) as writer:
                count = write_rows(writer, (rows_of_batch(found) for _, found in group), target)
                yield result_batch(partition, count, writer.next_offset)

    return run


def _by_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield parts of batches with rows of one partition each."""
    for batch in batches:
        partitions = batch.column("partition").to_pylist()
        start = 0
        for partition, group in groupby(partitions):
            count = sum(1 for _ in group)
            yield partition, batch.slice(start, count)
            start += count


def write_rows(writer: ReplayWriter, read: Iterable[list[ReplayRow]], target: ReplayTarget) -> int:
    """Write rows up to an end that is not known before, and return how many were new."""
    count = 0
    for rows, _end in in_transactions(read, target, _UNKNOWN_END):
        if rows:
            count += writer.write(rows, rows[-1].offset + 1)
    return count


def result_batch(partition: int, records: int, next_offset: int) -> pa.RecordBatch:
    """Return the result of a task for a partition."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array([partition], pa.int32()), pa.array([records], pa.int64()), pa.array([next_offset], pa.int64())],
        names=["partition", "records", "next_offset"],
    )


def replayed(frame: DataFrame, target: ReplayTarget, *, has_progress: bool) -> list[ReplayedPartition]:
    """Run the tasks and return their results."""
    found = sorted(
        (ReplayedPartition(row["partition"], row["records"], row["next_offset"]) for row in collect_rows(frame)),
        key=lambda each: each.partition,
    )
    if has_progress and not any(each.records for each in found):
        logger.warning(
            "Nothing was written: %s has replayed all of this before. Take another name to write it once more",
            target.name,
        )
    return found
