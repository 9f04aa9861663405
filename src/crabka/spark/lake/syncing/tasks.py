"""A task of a sync: reads its split, turns values into columns, writes Parquet, and returns what it wrote.

Nothing that a task writes counts until the driver commits it, so a task may run twice or die at any point. A task that
meets fields that have no column yet writes nothing: it returns them, and is run again when the table has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.syncing.rolling_writer import RollingWriter
from crabka.spark.lake.values.inferred_fields import InferredFields
from crabka.spark.lake.values.rows import table_rows, without_offsets
from crabka.spark.lake.values.schemas import dead_letter_schema
from crabka.spark.lake.values.value_modes import ValueDecoder
from crabka.spark.plan.ranges import Split
from crabka.spark.session.row_tasks import ArrowTask, for_each_row

SplitReader = Callable[[Split], Iterable[pa.RecordBatch]]
RESULT_SCHEMA = pa.schema([pa.field("task", pa.int64()), pa.field("answer", pa.string())])
RESULT_DDL = "task bigint, answer string"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """What all tasks of a round have in common; goes to executors."""

    read: SplitReader
    store: LakeStore
    dead_letter_store: LakeStore
    topic_id: str
    schema: pa.Schema
    decoder: ValueDecoder
    partition_column: str | None
    stores_partition_column: bool
    target_bytes: int
    # Offsets by partition that the table of dead letters has already, from a run that did not come to its end.
    known_dead: dict[int, Collection[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task did."""

    task: int
    files: tuple[DataFile, ...] = ()
    dead_letters: tuple[DataFile, ...] = ()
    new_fields: tuple[pa.Field, ...] = ()


def run_task(job: WriteJob, number: int, split: Split) -> TaskResult:
    """Read a split and write its files. Raises what reading and writing raise, and then removes its files if it can."""
    writers = _Writers(job)
    fields = InferredFields(job.decoder.fields)
    try:
        for batch in job.read(split):
            rows = table_rows(batch, job.topic_id, job.decoder, job.partition_column)
            if rows.new_fields:
                fields.look_at(pa.struct(rows.new_fields))
            if fields.new:
                continue  # the rest is only looked at, so that all its fields are returned at once
            writers.good.write(rows.good)
            if rows.bad is not None:
                writers.bad.write(without_offsets(rows.bad, job.known_dead))
        if fields.new:
            writers.give_up()
            return TaskResult(number, new_fields=tuple(fields.new))
        return TaskResult(number, tuple(writers.good.close()), tuple(writers.bad.close()))
    except BaseException:
        writers.give_up()
        raise


def encode_result(result: TaskResult) -> pa.RecordBatch:
    """Return the result of a task as its only row, also if it is empty."""
    answer = {
        "files": [file.to_json() for file in result.files],
        "dead_letters": [file.to_json() for file in result.dead_letters],
        "new_fields": pa.schema(result.new_fields).serialize().to_pybytes().hex(),
    }
    return pa.RecordBatch.from_pylist([{"task": result.task, "answer": json.dumps(answer)}], schema=RESULT_SCHEMA)


def decode_results(rows: Iterable[Mapping[str, Any]], count: int) -> list[TaskResult]:
    """Return the results of so many tasks, in their order.

    Raises LakeError unless each task answered once: offsets are committed for the splits of all of them.
    """
    results = sorted((_decode_row(row) for row in rows), key=lambda result: result.task)
    if [result.task for result in results] != list(range(count)):
        raise LakeError(f"Spark gave {len(results)} answers of {count} tasks; nothing was committed of what they wrote")
    return results


def arrow_task(job: WriteJob, splits: Sequence[Split]) -> ArrowTask:
    """Return the function for mapInArrow over rows that hold the numbers of splits, as `range` of Spark makes them."""

    def write(row: dict[str, Any]) -> pa.RecordBatch:
        return encode_result(run_task(job, row["id"], splits[row["id"]]))

    return for_each_row(write)


class _Writers:
    def __init__(self, job: WriteJob) -> None:
        unique = str(uuid4())
        self.good = RollingWriter(
            job.store,
            job.schema,
            unique,
            target_bytes=job.target_bytes,
            partition_column=job.partition_column,
            stores_partition_column=job.stores_partition_column,
        )
        self.bad = RollingWriter(job.dead_letter_store, dead_letter_schema(), unique, target_bytes=job.target_bytes)

    def give_up(self) -> None:
        self.good.give_up()
        self.bad.give_up()


def _decode_row(row: Mapping[str, Any]) -> TaskResult:
    answer = json.loads(row["answer"])
    return TaskResult(
        row["task"],
        tuple(map(DataFile.from_json, answer["files"])),
        tuple(map(DataFile.from_json, answer["dead_letters"])),
        tuple(pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(answer["new_fields"])))),
    )
