"""The decoder as its users see it: rows, columns, limits, errors, and the segments that Apache Kafka wrote."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crabka.records import Record, build_batch, decode_records, iter_headers, parse_header
from crabka.records.control import ControlRecordType, control_record_type
from crabka.records.filtering import emptied_batch, filtered_batch, raw_records
from crabka.records.header import LOG_APPEND_TIME, sealed
from crabka.spark.decode import (
    AbortedTransactions,
    BatchBounds,
    BatchDecoder,
    CorruptBatch,
    Origin,
    RowRange,
    arrow_schema,
)
from crabka.spark.decode import decoder as decoder_module
from tests.support.recorded.files import GOLDEN
from tests.support.spark.decoded_rows import (
    ALL_COLUMNS,
    EVERYTHING,
    ORIGIN,
    Row,
    decoded_rows,
    expected_rows,
    log_of,
    marker,
    records,
    rows_in,
)

SEGMENTS = sorted(
    [path for path in (GOLDEN / "single").glob("d?/*/*.log") if re.search(r"/[^/]+-\d+/", str(path))]
    + list((GOLDEN / "single/tier").glob("*/*/*.log"))
)
EXPECTED = json.loads((GOLDEN / "single/expected.json").read_text())


def partition_of(segment: Path) -> tuple[str, str]:
    match = re.match(r"(.+)-(\d+)(-.{22})?$", segment.parent.name)
    assert match
    return match[1], match[2]


def golden_row(row: list[Any]) -> list[Any]:
    offset, timestamp, key, value, headers, kind, _ = row
    return [
        offset,
        timestamp,
        key and base64.b64decode(key),
        None if value is None else base64.b64decode(value),
        [(name, None if text is None else base64.b64decode(text)) for name, text in headers or []],
        int(kind == "LogAppendTime"),
    ]


def comparable(row: Row) -> list[Any]:
    return [
        row["offset"],
        round(row["timestamp"].timestamp() * 1000),
        row["key"],
        row["value"],
        [(header["key"], header["value"]) for header in row["headers"] or []],
        row["timestampType"],
    ]


def test_segments_of_apache_kafka_give_what_its_consumers_read() -> None:
    seen: dict[tuple[str, str], list[list[Any]]] = {}
    decoder = BatchDecoder(ALL_COLUMNS)
    for segment in SEGMENTS:
        topic, partition = partition_of(segment)
        data = segment.read_bytes()
        rows = rows_in(decoder.decode(data, Origin(topic, int(partition), segment.name, 0), EVERYTHING))
        assert decoder.consumed == len(data)
        assert {(row["topic"], row["partition"]) for row in rows} <= {(topic, int(partition))}
        seen.setdefault((topic, partition), []).extend(map(comparable, rows))
    compared = 0
    for topic, partitions in EXPECTED["read_uncommitted"].items():
        for partition, rows in partitions.items():
            if (topic, partition) in seen:
                found = {row[0]: row for row in seen[topic, partition]}
                expected = {row[0]: golden_row(row) for row in rows}
                assert {offset: found.get(offset) for offset in expected} == expected
                compared += len(expected)
    assert compared > 1_500


def test_golden_transactions_are_read_committed() -> None:
    data = b"".join(path.read_bytes() for path in sorted((GOLDEN / "single/d2/txn-0").glob("*.log")))
    uncommitted = {row["offset"] for row in decoded_rows(data)}
    rows = [golden_row(row) for row in EXPECTED["read_committed"]["txn"]["0"]]
    stable = max(row[0] for row in rows) + 1
    aborted = AbortedTransactions(aborted_in(data))
    found = decoded_rows(data, RowRange(0, stable), aborted)
    assert [comparable(row) for row in found] == rows
    assert len(uncommitted) > len(rows)


def aborted_in(data: bytes) -> list[tuple[int, int, int | None]]:
    """The aborted transactions, by an own look at the markers."""
    first: dict[int, int] = {}
    found: list[tuple[int, int, int | None]] = []
    for position, header in iter_headers(data):
        if header.is_control:
            (record,) = decode_records(data[position : position + header.size_in_bytes])
            start = first.pop(header.producer_id, None)
            if start is not None and control_record_type(record) == ControlRecordType.ABORT:
                found.append((header.producer_id, start, header.base_offset))
        elif header.is_transactional:
            first.setdefault(header.producer_id, header.base_offset)
    return found


def test_rows_have_every_column_of_the_kafka_source() -> None:
    headers = (("a", b"1"), ("a", None), ("ü", b""))
    data = build_batch(
        [Record(0, 1_500, None, b"v"), Record(0, 2_500, b"", None), Record(0, 500, b"k", b"", headers)], base_offset=40
    )
    assert decoded_rows(data) == expected_rows(data)
    assert decoded_rows(data)[2] == {
        "key": b"k",
        "value": b"",
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": datetime(1970, 1, 1, 0, 0, 0, 500_000, UTC),
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "ü", "value": b""}],
    }


def test_a_missing_timestamp_is_one_millisecond_before_the_epoch_as_in_spark() -> None:
    data = build_batch([Record(0, -1, None, None)])
    assert decoded_rows(data)[0]["timestamp"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)


def test_log_append_time_replaces_the_timestamps_of_records() -> None:
    created = build_batch(records(2))
    appended = build_batch(records(2), base_offset=2, timestamp_type=LOG_APPEND_TIME, max_timestamp=1_000)
    rows = decoded_rows(created + appended + build_batch(records(1), base_offset=4))
    assert [row["timestampType"] for row in rows] == [0, 0, 1, 1, 0]
    assert rows[2]["timestamp"] == rows[3]["timestamp"] == datetime(1970, 1, 1, 0, 0, 1, 0, UTC)
    assert [row["timestampType"] for row in decoded_rows(appended)] == [1, 1]


def test_timestamps_beyond_those_of_spark_are_corrupt_only_if_asked_for() -> None:
    data = build_batch([Record(0, 2**62, None, b"v")])
    with pytest.raises(CorruptBatch, match="timestamp is outside"):
        decoded_rows(data)
    assert decoded_rows(data, columns=["value"]) == [{"value": b"v"}]


@pytest.mark.parametrize("columns", [ALL_COLUMNS, ("offset", "partition"), ("timestampType", "topic", "offset")])
@pytest.mark.parametrize("codec", [0, 3])
def test_ranges_cut_inside_batches(columns: tuple[str, ...], codec: int) -> None:
    data = log_of(7, 5, 9, codec=codec)
    for start in range(22):
        for end in (start, start + 1, start + 6, 21):
            rows = RowRange(start, end)
            expected = [{name: row[name] for name in columns} for row in expected_rows(data, rows)]
            assert decoded_rows(data, rows, columns=columns) == expected


def test_compacted_batches_keep_their_gaps_and_times() -> None:
    original = build_batch(records(9), base_offset=5, codec=3)
    header = parse_header(original)
    kept = [raw_records(original, header)[index] for index in (1, 4, 8)]
    for horizon in (None, 1_800_000_000_000):
        data = filtered_batch(header, kept, horizon) + emptied_batch(
            parse_header(build_batch(records(3), base_offset=14))
        )
        expected = [expected_rows(original)[index] for index in (1, 4, 8)]
        assert decoded_rows(data) == expected
        assert decoded_rows(data, columns=["offset"]) == [{"offset": row["offset"]} for row in expected]
        assert decoded_rows(data, RowRange(7, 13)) == expected[1:2]


@pytest.mark.parametrize("name", ALL_COLUMNS)
def test_every_column_can_come_alone(name: str) -> None:
    data = log_of(3, 4, codec=4) + build_batch([Record(0, 5, None, None, (("h", b"x"),))], base_offset=7)
    assert decoded_rows(data, columns=[name]) == [{name: row[name]} for row in expected_rows(data)]


def test_columns_come_in_the_order_asked_for() -> None:
    columns = ["offset", "headers", "key"]
    (batch,) = BatchDecoder(columns).decode(log_of(2), ORIGIN, EVERYTHING)
    assert batch.schema == arrow_schema(columns)


def test_unread_columns_are_not_looked_at() -> None:
    batch = bytearray(build_batch(records(4), codec=3))
    batch[61:] = bytes(len(batch) - 61)
    data = sealed(batch)
    assert [row["offset"] for row in decoded_rows(data, columns=["partition", "offset"])] == [0, 1, 2, 3]
    with pytest.raises(CorruptBatch):
        decoded_rows(data, columns=["key"])


@pytest.mark.parametrize("codec", [0, 3])
def test_arrow_batches_have_limits(codec: int) -> None:
    data = log_of(7, 30, 2, codec=codec)
    batches = list(BatchDecoder(ALL_COLUMNS, max_rows=10).decode(data, ORIGIN, EVERYTHING))
    assert [batch.num_rows for batch in batches] == [7, 10, 10, 10, 2]
    assert rows_in(batches) == expected_rows(data)
    narrow = list(BatchDecoder(ALL_COLUMNS, max_bytes=100).decode(data, ORIGIN, EVERYTHING))
    assert max(batch.num_rows for batch in narrow) < 5
    assert rows_in(narrow) == expected_rows(data)
    tiny = list(BatchDecoder(ALL_COLUMNS, max_bytes=1).decode(data, ORIGIN, EVERYTHING))
    assert [batch.num_rows for batch in tiny] == [1] * 39


@pytest.mark.parametrize("codec", [0, 4])
def test_a_long_batch_is_walked_in_parts(codec: int) -> None:
    data = log_of(3, 95, 3, codec=codec)
    for rows in (EVERYTHING, RowRange(2, 99), RowRange(50, 51), RowRange(40, 70)):
        found = list(BatchDecoder(ALL_COLUMNS, max_rows=10).decode(data, ORIGIN, rows))
        assert rows_in(found) == expected_rows(data, rows)
        assert max(batch.num_rows for batch in found) <= 10


def test_a_long_batch_with_a_broken_end_gives_no_rows() -> None:
    reports: list[CorruptBatch] = []
    data = log_of(3) + corrupt_inside(95, 3) + build_batch(records(2), base_offset=98)
    rows = decoded_rows(data, max_rows=10, on_corrupt=reports.append)
    assert [row["offset"] for row in rows] == [0, 1, 2, 98, 99]
    assert [report.base_offset for report in reports] == [3]


def test_memory_does_not_follow_the_number_of_small_records() -> None:
    data = build_batch([Record(0, 0, None, None)] * 50_000, codec=4)
    decoder = BatchDecoder(ALL_COLUMNS, max_rows=100)
    tracemalloc.start()
    try:
        assert sum(batch.num_rows for batch in decoder.decode(data, ORIGIN, EVERYTHING)) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_arrow_batches_have_a_limit_of_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "RECORD_HEADERS_MAX", 10)
    data = build_batch([Record(0, 0, None, b"v", (("h", b"x"),) * (index % 5)) for index in range(40)], codec=3)
    batches = list(BatchDecoder(ALL_COLUMNS).decode(data, ORIGIN, EVERYTHING))
    headers = [sum(len(row["headers"] or ()) for row in batch.to_pylist()) for batch in batches]
    assert headers == [10] * 8
    assert rows_in(batches) == expected_rows(data)
    assert len(list(BatchDecoder(["value"]).decode(data, ORIGIN, EVERYTHING))) == 1


def test_a_record_with_too_many_headers_is_not_called_damaged() -> None:
    data = build_batch([Record(0, 0, None, b"v", (("", None),) * ((1 << 20) + 1))], codec=4)
    with pytest.raises(CorruptBatch, match="more than 1048576 headers: no damage"):
        decoded_rows(data)
    assert decoded_rows(data, columns=["value"]) == [{"value": b"v"}]


def test_many_small_batches_become_one_arrow_batch() -> None:
    data = log_of(*[1] * 500)
    (batch,) = BatchDecoder(ALL_COLUMNS).decode(data, ORIGIN, EVERYTHING)
    assert rows_in([batch]) == expected_rows(data)


@pytest.mark.parametrize("settings", [{"max_rows": 0}, {"max_bytes": 0}, {"max_bytes": 1 << 31}])
def test_impossible_limits_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        BatchDecoder(ALL_COLUMNS, **settings)


def test_an_incomplete_batch_is_left_for_the_next_time() -> None:
    data = log_of(3, 3, codec=3)
    whole = parse_header(data).size_in_bytes
    decoder = BatchDecoder(["offset"])
    assert len(rows_in(decoder.decode(memoryview(data)[:-1], ORIGIN, EVERYTHING))) == 3
    assert decoder.consumed == whole
    assert len(rows_in(decoder.decode(data[whole:], ORIGIN, EVERYTHING))) == 3
    assert rows_in(decoder.decode(b"", ORIGIN, EVERYTHING)) == []
    assert decoder.consumed == 0


def test_batches_are_checked_before_the_first_row_is_made() -> None:
    data = log_of(3, 3)
    decoder = BatchDecoder(["offset"])
    rows = decoder.decode(data, ORIGIN, EVERYTHING, bounds=BatchBounds(0, 6))
    assert (decoder.consumed, decoder.next_offset) == (len(data), 6)
    assert len(rows_in(rows)) == 6
    with pytest.raises(CorruptBatch, match="offsets 3 to 5 are not before 5"):
        decoder.decode(data, ORIGIN, EVERYTHING, bounds=BatchBounds(0, 5))
    lenient = BatchDecoder(["offset"], on_corrupt=lambda _: None)
    assert len(rows_in(lenient.decode(data, ORIGIN, EVERYTHING, bounds=BatchBounds(0, 5)))) == 3
    assert (lenient.consumed, lenient.next_offset) == (len(data), 3)


def test_earlier_rows_are_not_touched_by_later_data() -> None:
    decoder = BatchDecoder(ALL_COLUMNS)
    data = log_of(50, 50, codec=3)
    (kept,) = decoder.decode(data, ORIGIN, EVERYTHING)
    list(decoder.decode(build_batch([Record(0, 0, b"x" * 50, b"y" * 50)] * 100, codec=3), ORIGIN, EVERYTHING))
    assert rows_in([kept]) == expected_rows(data)


def test_transactions_are_dropped_up_to_their_abort_marker() -> None:
    aborted = build_batch(records(3), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    committed = build_batch(
        records(3), base_offset=4, producer_id=7, producer_epoch=0, base_sequence=3, transactional=True
    )
    data = aborted + marker(7, 3, committed=False) + committed + marker(7, 7, committed=True)
    assert len(decoded_rows(data)) == 6
    for last in (3, None):
        rows = decoded_rows(data, aborted=AbortedTransactions([(7, 0, last)]))
        assert [row["offset"] for row in rows] == [4, 5, 6]


def corrupt_inside(count: int, base_offset: int) -> bytes:
    """A batch with a good checksum and a broken last record."""
    batch = bytearray(build_batch(records(count), base_offset=base_offset))
    batch[-1] = 0x7F
    return sealed(batch)


def test_a_corrupt_batch_is_raised_with_its_place() -> None:
    good = log_of(3)
    with pytest.raises(CorruptBatch, match=r"offset 3 of orders-3, object orders-3/0+\.log, position ") as caught:
        decoded_rows(good + corrupt_inside(4, 3))
    assert caught.value.position == ORIGIN.position + len(good)
    assert caught.value.skippable


def test_corrupt_batches_are_reported_and_left_out_if_that_is_wanted() -> None:
    broken_crc = bytearray(build_batch(records(2), base_offset=9))
    broken_crc[-1] ^= 1
    data = log_of(3) + corrupt_inside(4, 3) + build_batch(records(2), base_offset=7) + bytes(broken_crc)
    reports: list[CorruptBatch] = []
    rows = decoded_rows(data, on_corrupt=reports.append)
    assert [row["offset"] for row in rows] == [0, 1, 2, 7, 8]
    assert sorted(report.base_offset for report in reports) == [3, 9]
    assert {report.message for report in reports} == {
        "a record has broken headers",
        "the checksum does not fit the bytes",
    }


@pytest.mark.parametrize("deltas", [(0, 0, 0), (0, 2, 1), (1, 2, 2)])
def test_offsets_that_do_not_rise_are_corrupt(deltas: tuple[int, ...]) -> None:
    header = parse_header(build_batch(records(3)))
    kept = raw_records(build_batch(records(3)), header)
    data = filtered_batch(header, [kept[delta] for delta in deltas], None)
    for columns in (ALL_COLUMNS, ["value"], ["timestamp"]):
        with pytest.raises(CorruptBatch, match="not above the one before"):
            decoded_rows(data, columns=columns)


def test_the_types_of_timestamps_stay_with_their_rows_when_a_batch_is_left_out() -> None:
    appended = build_batch(records(2), base_offset=7, timestamp_type=LOG_APPEND_TIME, max_timestamp=5)
    data = log_of(3) + corrupt_inside(4, 3) + appended
    rows = decoded_rows(data, on_corrupt=lambda _: None)
    assert [(row["offset"], row["timestampType"]) for row in rows] == [(0, 0), (1, 0), (2, 0), (7, 1), (8, 1)]


def test_memory_of_the_source_may_be_of_any_kind() -> None:
    data = log_of(4)
    for form in (data, memoryview(data), memoryview(bytearray(data)), memoryview(pa.py_buffer(data))):
        assert len(rows_in(BatchDecoder(["key"]).decode(form, ORIGIN, EVERYTHING))) == 4
