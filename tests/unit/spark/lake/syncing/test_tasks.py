from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.syncing.tasks import (
    RESULT_DDL,
    RESULT_SCHEMA,
    TaskResult,
    WriteJob,
    arrow_task,
    decode_results,
    encode_result,
    run_task,
)
from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.lake.values.schemas import table_schema
from crabka.spark.plan.ranges import Split
from tests.support.spark.lake_tables import TOPIC_ID, lake_of
from tests.support.spark.lake_topic import ListTopic

ID = pa.field("id", pa.int64())


def job(tmp_path: Path, topic: Any, *, infers: bool = False, known_dead: dict[int, set[int]] | None = None) -> WriteJob:
    lake = lake_of(tmp_path, "parquet")
    return WriteJob(
        read=topic,
        store=lake.store("orders"),
        dead_letter_store=lake.store("orders_dlq"),
        topic_id=TOPIC_ID,
        schema=table_schema([ID], with_date=False),
        decoder=JsonValues((ID,), infers=infers),
        partition_column=None,
        stores_partition_column=True,
        target_bytes=1 << 20,
        known_dead=dict(known_dead or {}),
    )


def split_of(topic: ListTopic) -> Split:
    return Split(tuple(each for split in topic.plan("orders", {}).splits for each in split.ranges))


def written(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "lake").rglob("*.parquet"))


def test_a_task_returns_its_files_and_its_dead_letters(tmp_path: Path) -> None:
    topic = ListTopic([[b'{"id": 1}', b"{", b'{"id": 2}', b"["]])
    result = run_task(job(tmp_path, topic), 0, split_of(topic))
    assert [file.rows for file in result.files] == [2]
    assert [file.rows for file in result.dead_letters] == [2]
    assert decode_results(encode_result(result).to_pylist(), 1) == [result]


def test_dead_letters_that_are_there_already_are_not_written_again(tmp_path: Path) -> None:
    topic = ListTopic([[b"{", b"{", b"{"]])
    result = run_task(job(tmp_path, topic, known_dead={0: {0, 1}}), 0, split_of(topic))
    assert [(file.rows, file.offsets and file.offsets.least) for file in result.dead_letters] == [(1, 2)]
    assert run_task(job(tmp_path, topic, known_dead={0: {0, 1, 2}}), 0, split_of(topic)).dead_letters == ()


def test_new_fields_are_reported_and_nothing_is_written(tmp_path: Path) -> None:
    topic = ListTopic([[b'{"id": 1}'] * 4 + [b'{"a": 1}', b'{"a": "x", "b": true}', b'{"c": [1.5]}']])
    result = run_task(job(tmp_path, topic, infers=True), 0, split_of(topic))
    assert {field.name: str(field.type) for field in result.new_fields} == {
        "a": "int64",
        "b": "bool",
        "c": "list<item: double>",
    }
    assert (result.files, written(tmp_path)) == ((), [])
    assert decode_results(encode_result(result).to_pylist(), 1) == [result]


def test_two_attempts_write_different_files(tmp_path: Path) -> None:
    topic = ListTopic([[b'{"id": 1}']])
    first, second = (run_task(job(tmp_path, topic), 0, split_of(topic)) for _ in range(2))
    assert first.files[0].path != second.files[0].path
    assert len(written(tmp_path)) == 2


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    topic = ListTopic([[b'{"id": 1}', b"{"]])

    def read(split: Split) -> Iterator[pa.RecordBatch]:
        yield from topic(split)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        run_task(job(tmp_path, read), 0, split_of(topic))
    assert written(tmp_path) == []


def test_the_function_for_spark_runs_the_splits_that_its_rows_name(tmp_path: Path) -> None:
    topic = ListTopic([[b'{"id": 1}'] * 7])
    splits = [Split((each,)) for each in split_of(topic).ranges]
    sent = pickle.loads(pickle.dumps(job(tmp_path, topic)))  # noqa: S301 - as it goes to tasks
    batches = list(arrow_task(sent, splits)(iter([pa.RecordBatch.from_pydict({"id": [1, 0]})])))
    assert [batch.schema for batch in batches] == [RESULT_SCHEMA] * 2
    results = decode_results([row for batch in batches for row in batch.to_pylist()], 2)
    assert [(result.task, [file.rows for file in result.files]) for result in results] == [(0, [5]), (1, [2])]


def test_every_task_has_to_answer_once() -> None:
    rows = [encode_result(TaskResult(task)).to_pylist()[0] for task in (1, 0)]
    assert decode_results(rows, 2) == [TaskResult(0), TaskResult(1)]
    assert decode_results([], 0) == []
    for found in (rows[:1], [*rows, rows[0]], []):
        with pytest.raises(LakeError, match=f"Spark gave {len(found)} answers of 2 tasks"):
            decode_results(found, 2)


def test_spark_and_arrow_know_the_same_columns() -> None:
    assert [column.split() for column in RESULT_DDL.split(", ")] == [
        [field.name, {"int64": "bigint"}.get(str(field.type), str(field.type))] for field in RESULT_SCHEMA
    ]
