from __future__ import annotations

import json
from datetime import date

import pyarrow as pa

from crabka.spark.lake.values.json_values import JsonValues
from crabka.spark.lake.values.rows import (
    READ_COLUMNS,
    by_partition_value,
    partition_text,
    table_rows,
    topic_partition_in,
    without_offsets,
)
from crabka.spark.lake.values.schemas import DATE, FIRST_CALENDAR_US, LAST_CALENDAR_US, PARTITION, conform
from crabka.spark.lake.values.value_modes import DecodedValues, RawValues
from tests.support.spark.lake_tables import TOPIC_ID, day_of, raw_spec, rows_of
from tests.support.spark.lake_topic import ListTopic


def source_rows(*values: bytes | None) -> pa.RecordBatch:
    topic = ListTopic([list(values)])
    [split] = topic.plan("orders", {}).splits
    return pa.Table.from_batches(topic(split)).combine_chunks().to_batches()[0]


def test_rows_of_the_source_get_the_names_of_tables() -> None:
    batch = source_rows(b"a", None)
    assert set(batch.schema.names) == set(READ_COLUMNS)
    rows = table_rows(batch, TOPIC_ID, RawValues(), DATE)
    assert rows.bad is None
    good = conform(rows.good, raw_spec(with_date=True).schema).to_pylist()
    assert [row["value"] for row in good] == [b"a", None]
    assert good[1]["kafka_offset"] == 1
    assert good[1]["kafka_topic_id"] == TOPIC_ID
    assert good[1]["kafka_date"] == day_of(1)
    assert "kafka_date" not in table_rows(batch, TOPIC_ID, RawValues(), "kafka_topic").good.schema.names


def test_a_day_that_no_calendar_has_is_null() -> None:
    topic = ListTopic(
        [[b"v"] * 4], timestamps_us={1: LAST_CALENDAR_US, 2: LAST_CALENDAR_US + 1, 3: FIRST_CALENDAR_US - 1}
    )
    [split] = topic.plan("orders", {}).splits
    dates = [table_rows(batch, TOPIC_ID, RawValues(), DATE).good.column(DATE) for batch in topic(split)]
    assert pa.concat_arrays(dates).to_pylist() == [day_of(0), date(9999, 12, 31), None, None]


def test_bad_rows_keep_their_values_and_say_why() -> None:
    decoder = JsonValues((pa.field("id", pa.int64()),))
    rows = table_rows(source_rows(b'{"id": 1}', b"{", b'{"id": 2}'), TOPIC_ID, decoder)
    assert [(row["kafka_offset"], row["id"]) for row in rows.good.to_pylist()] == [(0, 1), (2, 2)]
    assert rows.bad is not None
    [bad] = rows.bad.to_pylist()
    assert (bad["kafka_offset"], bad["value"]) == (1, b"{")
    assert "JSON" in bad["reason"]


def test_rows_that_are_known_are_left_out() -> None:
    batch = rows_of(1, [3, 4, 5])
    assert without_offsets(batch, {}) is batch
    assert without_offsets(batch, {0: {3}, 1: {4}}).column("kafka_offset").to_pylist() == [3, 5]
    assert without_offsets(batch, {1: {3, 4, 5}}).num_rows == 0


def test_every_value_of_the_partition_column_has_its_rows() -> None:
    kinds = pa.array(["a", None, "b", "a", None], pa.string())
    batch = rows_of(0, range(5), kind=kinds)
    groups = {value: rows.column("kafka_offset").to_pylist() for value, rows in by_partition_value(batch, "kind")}
    assert groups == {"a": [0, 3], None: [1, 4], "b": [2]}
    assert [(value, rows.num_rows) for value, rows in by_partition_value(batch, None)] == [(None, 5)]
    assert list(by_partition_value(batch.slice(0, 0), None)) == []


def test_rows_of_many_values_keep_their_order() -> None:
    kinds = pa.array([None if number % 7 == 0 else f"k{number % 50}" for number in range(2000)], pa.string())
    groups = list(by_partition_value(rows_of(0, range(2000), kind=kinds), "kind"))
    assert len(groups) == len({value for value, _ in groups}) == 51
    offsets = [rows.column("kafka_offset").to_pylist() for _, rows in groups]
    assert all(each == sorted(each) for each in offsets)
    assert sorted(offset for each in offsets for offset in each) == list(range(2000))
    assert all(set(rows.column("kind").to_pylist()) == {value} for value, rows in groups)


def test_few_rows_do_not_keep_many_in_memory() -> None:
    kinds = pa.array(["rare"] + ["usual"] * 999, pa.string())
    groups = dict(by_partition_value(rows_of(0, range(1000), kind=kinds), "kind"))
    assert groups["rare"].get_total_buffer_size() < 2000


def test_rows_with_values_that_no_partition_can_have_are_bad() -> None:
    fields = (pa.field("id", pa.int64()), pa.field("kind", pa.string()))
    longest, longer = "ü" * 512, "ü" * 512 + "x"
    values = [json.dumps({"id": number, "kind": kind}).encode() for number, kind in enumerate((longest, longer, None))]
    batch = source_rows(values[0], b"{", values[1], values[2])
    rows = table_rows(batch, TOPIC_ID, JsonValues(fields), "kind")
    assert [(row["kafka_offset"], row["id"]) for row in rows.good.to_pylist()] == [(0, 0), (3, 2)]
    assert rows.bad is not None
    assert [(row["kafka_offset"], row["value"]) for row in rows.bad.to_pylist()] == [(1, b"{"), (2, values[1])]
    assert rows.bad.column("reason")[1].as_py() == "kind: longer than 1024 bytes, which no partition's value may be"
    assert table_rows(batch, TOPIC_ID, JsonValues(fields), "kafka_topic").good.num_rows == 3


def test_rows_of_days_that_no_calendar_has_are_bad() -> None:
    days = pa.array([0, 5_000_000, None, -1_000_000, 2_932_896, -719_162], pa.int32()).cast(pa.date32())

    class _Days(RawValues):
        def decode(self, values: pa.Array) -> DecodedValues:
            return DecodedValues([days.slice(0, len(values))], [pa.field("day", pa.date32())])

    batch = source_rows(*[b"v"] * 5)
    rows = table_rows(batch, TOPIC_ID, _Days(), "day")
    assert rows.good.column("kafka_offset").to_pylist() == [0, 2, 4]
    assert [value for value, _ in by_partition_value(rows.good, "day")] == ["1970-01-01", None, "9999-12-31"]
    assert table_rows(batch, TOPIC_ID, _Days()).bad is None


def test_values_of_partitions_are_written_as_formats_do() -> None:
    assert partition_text(pa.scalar(True)) == "true"
    assert partition_text(pa.scalar(day_of(0), pa.date32())) == "2026-01-01"
    assert partition_text(pa.scalar(7)) == "7"
    assert partition_text(pa.scalar(None, pa.string())) is None


def test_rows_may_leave_their_partition_to_the_table() -> None:
    rows = rows_of(3, range(2))
    assert topic_partition_in(rows, None, None) == topic_partition_in(rows, DATE, "2026-01-01") == 3
    assert topic_partition_in(rows.drop_columns([PARTITION]), PARTITION, "3") == 3
    assert topic_partition_in(rows.slice(0, 0), None, None) == 0
