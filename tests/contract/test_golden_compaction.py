"""Cleaning what Apache Kafka 4.3.0 wrote gives what its own cleaner left of the same input."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from crabka.config.topic import TopicConfig
from crabka.ids import TopicPartition
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.records.header import BatchHeader, iter_headers
from crabka.records.record import decode_records
from crabka.vfs import OsFileSystem
from tests.support.recorded.files import GOLDEN
from tests.support.storage.cleaning import clean
from tests.support.storage.small import read_batches

SINGLE = GOLDEN / "single"
BEFORE = SINGLE / "d2" / "compacted-before-0"
AFTER = SINGLE / "d1" / "compacted-after-0"
TXN = SINGLE / "d2" / "compacted-txn-0"
DAY_MS = 24 * 3600 * 1000


def _expected() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SINGLE / "expected.json").read_text())
    return content


def _open(source: Path, tmp_path: Path, **changes: Any) -> PartitionLog:
    topic = source.name.removesuffix("-0")
    shutil.copytree(source, tmp_path / source.name)
    config = TopicConfig.from_overrides(_expected()["topic_configs_set"][topic])
    log = open_log(
        SegmentContext(OsFileSystem()),
        str(tmp_path / source.name),
        TopicPartition(topic, 0),
        replace(config, **changes),
        OpenOptions(clean=True, high_watermark=1 << 40),
    )
    log.set_high_watermark(log.log_end_offset)
    return log


def _rows(log: PartitionLog) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [
        record[:4]
        for header, batch in read_batches(log)
        if not header.is_control
        for record in decode_records(batch, header)
    ]


def _expected_rows(topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    rows = _expected()["read_uncommitted"][topic]["0"]
    return [(row[0], row[1], *(None if x is None else base64.b64decode(x) for x in row[2:4])) for row in rows]


def _kafka_cleaned_at() -> int:
    """The moment of Kafka's own cleaning, which the delete horizon of its batches shows."""
    horizons = {
        header.base_timestamp
        for path in AFTER.glob("*.log")
        for header in _headers(path.read_bytes())
        if header.has_delete_horizon
    }
    (horizon,) = horizons
    return horizon - DAY_MS


def _headers(data: bytes) -> list[BatchHeader]:
    return [header for _, header in iter_headers(data)]


def test_cleaning_leaves_the_rows_that_kafka_leaves(tmp_path: Path) -> None:
    log = _open(BEFORE, tmp_path, min_compaction_lag_ms=0)
    assert clean(log, now_ms=_kafka_cleaned_at()) == 98
    assert _rows(log) == _expected_rows("compacted-after")


def test_the_log_files_are_those_of_kafka_batch_for_batch(tmp_path: Path) -> None:
    log = _open(BEFORE, tmp_path, min_compaction_lag_ms=0)
    clean(log, now_ms=_kafka_cleaned_at())
    ours = {path.name: path.read_bytes() for path in (tmp_path / BEFORE.name).glob("*.log")}
    theirs = {path.name: path.read_bytes() for path in AFTER.glob("*.log")}
    assert ours.keys() == theirs.keys()
    for name, content in theirs.items():
        # Producer ids differ: two producers wrote the same records.
        assert _without_producers(ours[name]) == _without_producers(content), name


def _without_producers(data: bytes) -> list[tuple[BatchHeader, list[Any]]]:
    return [
        (header._replace(producer_id=0, crc=0), list(decode_records(data[position:], header)))
        for position, header in iter_headers(data)
    ]


def test_a_second_cleaning_behind_the_horizon_removes_the_tombstones(tmp_path: Path) -> None:
    log = _open(BEFORE, tmp_path, min_compaction_lag_ms=0)
    first_ms = _kafka_cleaned_at()
    first_dirty = clean(log, now_ms=first_ms)
    clean(log, first_dirty=first_dirty, now_ms=first_ms + DAY_MS - 1)
    assert any(value is None for offset, _, _, value in _rows(log) if offset < 98)
    clean(log, first_dirty=first_dirty, now_ms=first_ms + DAY_MS)
    assert not any(value is None for offset, _, _, value in _rows(log) if offset < 98)
    values = [row for row in _expected_rows("compacted-after") if row[3] is not None or row[0] >= 98]
    assert _rows(log) == values


def test_what_kafka_cleaned_of_transactions_stays_as_it_is(tmp_path: Path) -> None:
    log = _open(TXN, tmp_path)
    before = _rows(log)
    clean(log, first_dirty=74, now_ms=0)
    assert _rows(log) == before
