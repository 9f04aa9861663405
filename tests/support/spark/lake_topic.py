"""A topic for syncs that is a list: plans and rows without a broker, a tier or Spark."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import Any

import pyarrow as pa

from crabka.ids import TopicPartition
from crabka.spark.lake.syncing.tasks import TaskResult, WriteJob, decode_results, encode_result, run_task
from crabka.spark.lake.syncing.topic_sync import TopicEnds, TopicInspection
from crabka.spark.lake.values.schemas import HEADERS_TYPE
from crabka.spark.plan.history.divergence import Divergence, LogCutError, ReadPosition
from crabka.spark.plan.history.witnesses import BatchWitness
from crabka.spark.plan.ranges import BrokerRange, PlannedRange, ReadPlan, Split
from tests.support.spark.lake_tables import FIRST_TIMESTAMP, TOPIC_ID

_RANGE = 5
_BATCH = 3


@dataclass
class ListTopic:
    """Values by partition; the offset of a value is its place. `first` are log starts."""

    values: list[Any]
    topic_id: str = TOPIC_ID
    name: str = "orders"
    first: dict[int, int] = field(default_factory=dict)
    # Microseconds by offset, for offsets that are not an hour after the one before.
    timestamps_us: dict[int, int] = field(default_factory=dict)
    # Whether failOnDataLoss is false.
    passes_over: bool = False

    @property
    def reader(self) -> ListTopic:
        return self

    def plan(self, topic: str, positions: Mapping[int, ReadPosition]) -> ReadPlan:
        ranges: list[PlannedRange] = []
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for partition, values in enumerate(self.values):
            position = positions.get(partition)
            start = self.first.get(partition, 0) if position is None else position.offset
            if start > len(values):
                raise LogCutError(self.divergences(topic, positions)[1])
            spans[topic, partition] = (start, len(values))
            ranges += [
                BrokerRange(topic, self.topic_id, partition, at, min(at + _RANGE, len(values)))
                for at in range(start, len(values), _RANGE)
            ]
        splits = tuple(Split(tuple(ranges[at : at + 2])) for at in range(0, len(ranges), 2))
        return ReadPlan(splits, spans, {topic: self.topic_id})

    def inspect(
        self, plan: ReadPlan, positions: Mapping[int, ReadPosition], offsets: Mapping[int, Sequence[int]]
    ) -> TopicInspection:
        (topic,) = plan.topic_ids
        _, cut = self.divergences(topic, positions)
        if cut and not self.passes_over:
            raise LogCutError(cut)
        witnesses = {
            partition: [self.witness(partition, offset) for offset in wanted if offset < len(self.values[partition])]
            for partition, wanted in offsets.items()
        }
        return TopicInspection(witnesses, frozenset(each.partition.partition for each in cut))

    def divergences(self, topic: str, positions: Mapping[int, ReadPosition]) -> tuple[str | None, list[Divergence]]:
        found: list[Divergence] = []
        for partition, position in positions.items():
            same = list(takewhile(partial(self._has, partition), position.chain))
            if position.offset > len(self.values[partition]) or same[-1:] != list(position.chain[-1:]):
                agreed = same[-1].last_offset + 1 if same else 0
                found.append(
                    Divergence(
                        partition=TopicPartition(topic, partition),
                        position=position.offset,
                        agreed_offset=agreed,
                        differs_offset=agreed,
                        log_start_offset=self.first.get(partition, 0),
                    )
                )
        return self.topic_id, found

    def witness(self, partition: int, offset: int) -> BatchWitness:
        """A batch has one record, and its value for a checksum."""
        return BatchWitness(offset, offset, 0, zlib.crc32(self.values[partition][offset] or b""), 0, 1)

    def _has(self, partition: int, witness: BatchWitness) -> bool:
        offset = witness.last_offset
        return offset < len(self.values[partition]) and self.witness(partition, offset) == witness

    def ends(self, topic: str) -> TopicEnds:
        return TopicEnds(self.topic_id, {partition: len(values) for partition, values in enumerate(self.values)})

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        for each in split.ranges:
            for at in range(each.start_offset, each.end_offset, _BATCH):
                yield self._rows(each.partition, range(at, min(at + _BATCH, each.end_offset)))

    def _rows(self, partition: int, offsets: Sequence[int]) -> pa.RecordBatch:
        count = len(offsets)
        return pa.RecordBatch.from_pydict(
            {
                "key": pa.array([b"key-%d" % offset for offset in offsets], pa.binary()),
                "value": pa.array([self.values[partition][offset] for offset in offsets], pa.binary()),
                "topic": pa.array([self.name] * count, pa.string()),
                "partition": pa.array([partition] * count, pa.int32()),
                "offset": pa.array(offsets, pa.int64()),
                "timestamp": pa.array([self._timestamp_us(offset) for offset in offsets], pa.timestamp("us", "UTC")),
                "timestampType": pa.array([0] * count, pa.int32()),
                "headers": pa.nulls(count, HEADERS_TYPE),
            }
        )

    def _timestamp_us(self, offset: int) -> int:
        usual = FIRST_TIMESTAMP + timedelta(hours=offset)
        return self.timestamps_us.get(offset, int(usual.timestamp()) * 1_000_000)


class InlineRunner:
    """Runs tasks one after the other, here; every answer goes through its encoding. `runs` counts tasks."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, job: WriteJob, splits: Sequence[Split]) -> list[TaskResult]:
        rows: list[dict[str, object]] = []
        for number, split in enumerate(splits):
            self.runs += 1
            rows += encode_result(run_task(job, number, split)).to_pylist()
        return decode_results(rows, len(splits))
