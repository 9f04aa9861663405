from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import DataFile, file_name
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.syncing.commits import CommitOutcome
from crabka.spark.lake.syncing.dead_letters import DeadLetters
from crabka.spark.lake.values.schemas import conform, dead_letter_schema
from tests.support.spark.lake_reader import table_places
from tests.support.spark.lake_tables import TOPIC_ID, lake_of, new_table, rows_of


def dead_file(lake: Lake, partition: int, *offsets: int) -> DataFile:
    schema = dead_letter_schema()
    path = file_name("", offsets[0], partition, str(uuid4()))
    writer = ParquetFileWriter(lake.store("orders_dlq"), path, schema)
    reasons = pa.array(["bad"] * len(offsets), pa.string())
    writer.write(conform(rows_of(partition, offsets, reason=reasons), schema))
    return writer.close()


def letters_of(lake: Lake, topic_id: str = TOPIC_ID) -> DeadLetters:
    return DeadLetters(lake, "orders", "orders", topic_id)


def commit(letters: DeadLetters, files: list[DataFile], after: dict[int, int]) -> CommitOutcome:
    return letters.commit(files, after)


def test_the_table_is_made_when_the_first_letter_comes(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    letters = letters_of(lake)
    assert commit(letters, [], {0: 5}) is CommitOutcome.COMMITTED
    assert lake.open("orders_dlq") is None
    assert commit(letters, [dead_file(lake, 0, 3)], {0: 5}) is CommitOutcome.COMMITTED
    assert table_places(Path(lake.root), "orders_dlq", "parquet") == [(0, 3)]


def test_letters_beyond_the_offsets_of_the_table_are_found(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    commit(letters_of(lake), [dead_file(lake, 0, 1, 3), dead_file(lake, 1, 2)], {0: 5, 1: 5})
    commit(letters_of(lake), [dead_file(lake, 0, 7, 9)], {0: 10, 1: 5})
    letters = letters_of(lake)
    assert letters.ahead_of({0: 10, 1: 5}) == {}
    assert letters.ahead_of({0: 3, 1: 5}) == {0: {3, 7, 9}}
    assert letters.ahead_of({0: 8}) == {0: {9}, 1: {2}}


def test_of_two_who_saw_the_same_letters_one_commits(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    first, second = letters_of(lake), letters_of(lake)
    assert commit(first, [dead_file(lake, 0, 1)], {0: 5}) is CommitOutcome.COMMITTED
    assert commit(second, [dead_file(lake, 0, 1)], {0: 3}) is CommitOutcome.SUPERSEDED
    assert table_places(Path(lake.root), "orders_dlq", "parquet") == [(0, 1)]


def test_offsets_never_move_back(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    commit(letters_of(lake), [dead_file(lake, 0, 9)], {0: 10})
    letters = letters_of(lake)
    assert commit(letters, [dead_file(lake, 0, 2)], {0: 4, 1: 0}) is CommitOutcome.COMMITTED
    found = lake.open("orders_dlq")
    assert found is not None
    assert found.committed_offsets() == {0: 10, 1: 0}


def test_dead_letters_of_a_topic_that_was_created_anew_are_others(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    early = letters_of(lake, "AnotherTopicAltogether")
    commit(letters_of(lake), [dead_file(lake, 0, 9)], {0: 10})
    late = letters_of(lake, "AnotherTopicAltogether")
    assert late.ahead_of({0: 0}) == {}
    for letters in (early, late):
        with pytest.raises(LakeError, match=r"orders_dlq has dead letters .* with the id .* move it away"):
            commit(letters, [dead_file(lake, 0, 1)], {0: 2})
    assert table_places(Path(lake.root), "orders_dlq", "parquet") == [(0, 9)]


def test_a_table_of_a_topic_is_not_used_for_dead_letters(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "parquet")
    new_table(lake, "orders_dlq")
    letters = letters_of(lake)
    assert commit(letters, [], {0: 2}) is CommitOutcome.COMMITTED
    with pytest.raises(LakeError, match="orders_dlq is of the topic orders, but dead letters"):
        commit(letters, [dead_file(lake, 0, 1)], {0: 2})
