"""A topic for syncs that is a list: plans and rows without a broker, a tier or Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from crabka.errors import ConfigError
from crabka.spark.lake.schemas import HEADERS_TYPE
from crabka.spark.lake.tasks import TaskResult, WriteJob, decode_results, encode_result, run_task
from crabka.spark.lake.topic_sync import TopicEnds
from crabka.spark.plan.ranges import BrokerRange, PlannedRange, ReadPlan, Split
from tests.support.lake_tables import FIRST_TIMESTAMP, TOPIC_ID

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

    @property
    def reader(self) -> ListTopic:
        return self

    def plan(self, topic: str, starts: dict[int, int]) -> ReadPlan:
        ranges: list[PlannedRange] = []
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        for partition, values in enumerate(self.values):
            start = starts.get(partition, self.first.get(partition, 0))
            if start > len(values):
                raise ConfigError(f"the starting offset {start} is behind the ending offset {len(values)}")
            spans[topic, partition] = (start, len(values))
            ranges += [
                BrokerRange(topic, self.topic_id, partition, at, min(at + _RANGE, len(values)))
                for at in range(start, len(values), _RANGE)
            ]
        splits = tuple(Split(tuple(ranges[at : at + 2])) for at in range(0, len(ranges), 2))
        return ReadPlan(splits, spans, {topic: self.topic_id})

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
