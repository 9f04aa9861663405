"""Our record decoder against what librdkafka read from the same Kafka 4.3.0 logs."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from crabka.records.header import crc_valid, parse_header
from crabka.records.record import Record, decode_records
from tests.support.recorded.batches import golden_batches
from tests.support.recorded.files import GOLDEN

# Partitions whose whole content is in the local log; the others are partly in the remote tier.
PARTITIONS = [
    "compacted-after-0",
    "compacted-before-0",
    "compacted-notombstones-0",
    "compacted-txn-0",
    "moved-0",
    "moving-0",
    "plain-0",
    "plain-1",
    "plain-logappend-0",
    "plain-recompressed-0",
    "trimmed-0",
    "txn-0",
    "txn-1",
]


@pytest.fixture(scope="module")
def rows() -> Any:
    return json.loads((GOLDEN / "single" / "expected.json").read_text())["read_uncommitted"]


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _row(record: Record) -> list[Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    return [record.offset, record.timestamp, _text(record.key), _text(record.value), headers]


@pytest.mark.parametrize("directory", PARTITIONS)
def test_decoded_rows_equal_what_librdkafka_read(directory: str, rows: Any) -> None:
    topic, _, partition = directory.rpartition("-")
    expected = [row[:5] for row in rows[topic][partition]]
    decoded = [
        _row(record)
        for batch in golden_batches(directory)
        if not parse_header(batch).is_control
        for record in decode_records(batch)
    ]
    # A trimmed log keeps the segment in which its start lies.
    start = expected[0][0]
    assert [row for row in decoded if row[0] >= start] == expected


def test_every_golden_batch_has_a_valid_checksum_and_decodes() -> None:
    codecs = set()
    for batch in golden_batches():
        header = parse_header(batch)
        assert crc_valid(batch, 0, header)
        assert len(decode_records(batch)) == header.records_count
        codecs.add(header.codec)
    assert codecs == {0, 1, 2, 3, 4}
