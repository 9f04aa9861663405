"""The log dirs of Apache Kafka 4.3.0 open, and reading them gives what Kafka's clients read."""

from __future__ import annotations

import base64
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from crabka.config.topic import TopicConfig
from crabka.formats.file_names import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    DirectoryKind,
    parse_directory_name,
)
from crabka.formats.transaction_index import decode_aborted, encode_aborted
from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.producers.snapshots import decode_snapshot, encode_snapshot
from crabka.log.recovery.recovery import DAY_MS, OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.records.record import decode_records
from crabka.vfs import OsFileSystem
from tests.support.recorded.files import GOLDEN
from tests.support.storage.small import read_batches

SINGLE = GOLDEN / "single"
# Nothing expires: the capture holds records that were years old when they were written.
NOW_MS = 0
CAPTURED_MS = 1_794_773_800_000
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


@cache
def expected() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SINGLE / "expected.json").read_text())
    return content


def _log_paths() -> list[Path]:
    found = []
    for path in sorted(SINGLE.glob("d?/*-*")):
        parsed = parse_directory_name(path.name)
        if parsed is not None and parsed.kind is DirectoryKind.LOG and path.name != "__cluster_metadata-0":
            found.append(path)
    return found


LOG_PATHS = _log_paths()
LOCAL_PATHS = [path for path in LOG_PATHS if not path.name.startswith("tiered")]


def _open(source: Path, tmp_path: Path, *, clean: bool) -> PartitionLog:
    log_dir = tmp_path / source.parent.name
    shutil.copytree(source, log_dir / source.name)
    fs = OsFileSystem()
    parsed = parse_directory_name(source.name)
    assert parsed is not None
    topic_partition = parsed.topic_partition

    def checkpoint(name: str) -> int:
        return read_offset_checkpoint(fs, str(source.parent / name)).get(topic_partition, 0)

    return open_log(
        SegmentContext(fs),
        str(log_dir / source.name),
        topic_partition,
        TopicConfig.from_overrides(expected()["topic_configs_set"].get(topic_partition.topic, {})),
        OpenOptions(
            clean=clean,
            recovery_point=checkpoint(RECOVERY_POINT_CHECKPOINT) if clean else 0,
            log_start_offset=checkpoint(LOG_START_CHECKPOINT),
            high_watermark=checkpoint(REPLICATION_CHECKPOINT),
            now_ms=NOW_MS,
        ),
    )


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def _expected_rows(topic_partition: TopicPartition) -> list[tuple[Any, ...]] | None:
    rows = expected()["read_uncommitted"].get(topic_partition.topic, {}).get(str(topic_partition.partition))
    if rows is None:
        return None
    return [
        (offset, timestamp, _decoded(key), _decoded(value), tuple((n, _decoded(v)) for n, v in headers), kind, epoch)
        for offset, timestamp, key, value, headers, kind, epoch in rows
    ]


def _rows(log: PartitionLog, max_bytes: int) -> list[tuple[Any, ...]]:
    rows = []
    for header, batch in read_batches(log, max_bytes=max_bytes):
        if header.is_control:
            continue
        for record in decode_records(batch, header):
            if record.offset >= log.log_start_offset:
                kind = TIMESTAMP_TYPES[header.timestamp_type]
                rows.append((*record, kind, header.partition_leader_epoch))
    return rows


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "after_crash"])
@pytest.mark.parametrize("source", LOCAL_PATHS, ids=lambda path: path.name)
def test_local_topics_read_as_kafka_reads_them(source: Path, tmp_path: Path, clean: bool) -> None:
    log = _open(source, tmp_path, clean=clean)
    wanted = _expected_rows(log.topic_partition)
    if wanted is None:
        assert source.name.startswith("__")
        wanted = _rows(log, 1 << 20)
    assert _rows(log, 1 << 20) == wanted
    assert _rows(log, 300) == wanted
    end = expected()["list_offsets"]["latest"].get(source.name)
    if end is not None:
        assert log.log_end_offset == end["offset"]


@pytest.mark.parametrize("source", LOG_PATHS, ids=lambda path: path.name)
def test_offsets_by_special_timestamps_match(source: Path, tmp_path: Path) -> None:
    log = _open(source, tmp_path, clean=True)
    listed = expected()["list_offsets"]
    assert log.log_start_offset == listed["earliest"][source.name]["offset"]
    assert log.local_log_start_offset == listed["earliest_local"][source.name]["offset"]
    assert log.log_end_offset == listed["latest"][source.name]["offset"]
    wanted = listed["max_timestamp"][source.name]
    found = log.reads.max_timestamp_offset()
    if wanted["offset"] == -1:
        assert found is None
    else:
        assert found is not None
        assert (found.offset, found.timestamp) == (wanted["offset"], wanted["timestamp"])


def _timestamp_cases() -> list[tuple[str, int, dict[str, Any]]]:
    cases = []
    for spec, answers in expected()["list_offsets"].items():
        digits = spec.rsplit("_", 1)[-1].rsplit(":", 1)[-1]
        if digits.isdigit():
            cases += [(name, int(digits), answer) for name, answer in answers.items()]
    return cases


def test_offsets_by_timestamp_match(tmp_path: Path) -> None:
    logs = {path.name: _open(path, tmp_path, clean=True) for path in LOCAL_PATHS}
    checked = 0
    for name, timestamp, wanted in _timestamp_cases():
        # Kafka stops its search at the empty segments of these; they have newer records.
        if name not in logs or name in ("compacted-after-0", "compacted-notombstones-0"):
            continue
        found = logs[name].reads.offset_for_timestamp(timestamp)
        assert (found.offset if found else -1) == wanted["offset"], (name, timestamp)
        checked += 1
    assert checked > 0


@pytest.mark.parametrize("name", sorted(expected()["active_producers"]))
def test_active_producers_match(name: str, tmp_path: Path) -> None:
    (source,) = [path for path in LOG_PATHS if path.name == name]
    for clean in (True, False):
        log = _open(source, tmp_path / str(clean), clean=clean)
        if not clean and name in ("compacted-txn-0", "tiered-txn-0"):
            # Their first segments went or were emptied: the state is only in the snapshots.
            continue
        found: list[dict[str, Any]] = [
            {
                "producer_id": entry.producer_id,
                "epoch": entry.producer_epoch,
                "last_sequence": entry.last_sequence,
                "last_timestamp": entry.last_timestamp,
                "coordinator_epoch": entry.coordinator_epoch if entry.coordinator_epoch >= 0 else None,
                "txn_start_offset": entry.current_txn_first_offset,
            }
            for entry in log.producer_state.active_producers()
        ]
        wanted = expected()["active_producers"][name]
        kept = {row["producer_id"] for row in wanted}
        assert sorted((row for row in found if row["producer_id"] in kept), key=_by_id) == sorted(wanted, key=_by_id)
        # Kafka forgot the others at its restart because of their old timestamps.
        others = [row for row in found if row["producer_id"] not in kept]
        assert all(CAPTURED_MS - int(row["last_timestamp"]) > DAY_MS for row in others)


def _by_id(row: dict[str, Any]) -> int:
    return int(row["producer_id"])


@pytest.mark.parametrize("path", sorted(SINGLE.glob("d?/*/*.snapshot")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_producer_snapshots_encode_to_the_same_bytes(path: Path) -> None:
    data = path.read_bytes()
    assert encode_snapshot(decode_snapshot(data)) == data


def test_transaction_indexes_encode_to_the_same_bytes() -> None:
    paths = [path for path in SINGLE.glob("d?/*-?/*.txnindex") if path.stat().st_size]
    assert paths
    for path in paths:
        entries = decode_aborted(path.read_bytes())
        assert entries
        assert encode_aborted(entries) == path.read_bytes()


# Logs that were written without a restart in between, which starts the interval of the offset index anew.
@pytest.mark.parametrize("name", ["moved-0", "compacted-before-0", "trimmed-0", "plain-1"])
def test_recovery_builds_the_indexes_that_kafka_wrote(name: str, tmp_path: Path) -> None:
    (source,) = [path for path in LOG_PATHS if path.name == name]
    _open(source, tmp_path, clean=False)
    rebuilt = tmp_path / source.parent.name / name
    for original in sorted(source.glob("*.txnindex")):
        assert (rebuilt / original.name).read_bytes() == original.read_bytes(), original.name
    for original in sorted(source.glob("*.index")):
        assert (rebuilt / original.name).read_bytes() == original.read_bytes(), original.name
