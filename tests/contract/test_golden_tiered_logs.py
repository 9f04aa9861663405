"""Tiered partitions of Apache Kafka 4.3.0: where they start, and that their segments go to the tier as Kafka's went."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crabka.config.topic import TopicConfig
from crabka.errors import OffsetInRemoteTierError, OperationError
from crabka.formats.file_names import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    parse_directory_name,
)
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.log.partition.partition_log import PartitionLog
from crabka.log.recovery.recovery import OpenOptions, open_log
from crabka.log.segment.context import SegmentContext
from crabka.vfs import OsFileSystem
from tests.support.recorded.files import GOLDEN
from tests.support.storage.small import read_headers

PATHS = sorted([*GOLDEN.glob("single/d?/tiered*-*"), *GOLDEN.glob("overlap/d1/tiered-*")])
TIER = GOLDEN / "overlap" / "tier"


def _expected(source: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((source.parents[1] / "expected.json").read_text())
    return content


def _open(source: Path, tmp_path: Path, *, clean: bool) -> PartitionLog:
    target = tmp_path / source.parent.name / source.name
    shutil.copytree(source, target)
    fs = OsFileSystem()
    parsed = parse_directory_name(source.name)
    assert parsed is not None
    topic_partition = parsed.topic_partition

    def checkpoint(name: str) -> int:
        return read_offset_checkpoint(fs, str(source.parent / name)).get(topic_partition, 0)

    return open_log(
        SegmentContext(fs),
        str(target),
        topic_partition,
        TopicConfig.from_overrides(_expected(source)["topic_configs_set"][topic_partition.topic]),
        OpenOptions(
            clean=clean,
            recovery_point=checkpoint(RECOVERY_POINT_CHECKPOINT) if clean else 0,
            log_start_offset=checkpoint(LOG_START_CHECKPOINT),
            high_watermark=checkpoint(REPLICATION_CHECKPOINT),
        ),
    )


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "after_crash"])
@pytest.mark.parametrize("source", PATHS, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_both_starts_and_their_epochs_are_those_that_kafka_lists(source: Path, tmp_path: Path, clean: bool) -> None:
    log = _open(source, tmp_path, clean=clean)
    listed = _expected(source)["list_offsets"]
    assert log.is_tiered
    for spec, offset in (("earliest", log.log_start_offset), ("earliest_local", log.local_log_start_offset)):
        wanted = listed[spec][source.name]
        assert offset == wanted["offset"]
        # Where the next record will be written no record says the epoch: it is that of the leader.
        if offset < log.log_end_offset:
            assert log.leader_epochs.lineage.epoch_at(offset) == wanted["leader_epoch"]
    assert log.log_end_offset == log.high_watermark == listed["latest"][source.name]["offset"]


@pytest.mark.parametrize("source", PATHS, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_reads_below_the_local_start_are_sent_to_the_tier(source: Path, tmp_path: Path) -> None:
    log = _open(source, tmp_path, clean=True)
    for offset in (log.log_start_offset, log.local_log_start_offset - 1):
        with pytest.raises(OffsetInRemoteTierError):
            log.read(offset, max_bytes=1000)
    with pytest.raises(OperationError, match="but we only have log segments from offset"):
        log.read(log.log_start_offset - 1, max_bytes=1000)
    headers = read_headers(log, log.local_log_start_offset)
    assert [header.next_offset for header in headers[-1:]] in ([], [log.log_end_offset])


def test_segments_and_all_their_files_are_offered_as_kafka_copied_them(tmp_path: Path) -> None:
    (source,) = (path for path in PATHS if path.name == "tiered-overlap-0")
    log = _open(source, tmp_path, clean=True)
    offered = {each.base_offset: each for each in log.tiering.tierable_segments(0, log.high_watermark)}
    copied = {
        row["start_offset"]: row
        for row in _expected(source)["remote_segments"]["segments"]
        if row["start_offset"] >= log.local_log_start_offset
    }
    assert offered.keys() == copied.keys() == {106, 152}
    for base, each in offered.items():
        row = copied[base]
        assert log.tiering.prepare_for_copy(each)
        assert (each.end_offset, each.size_bytes, each.max_timestamp_ms) == (
            row["end_offset"],
            row["size"],
            row["max_timestamp"],
        )
        assert (each.txn_index_path is None) == row["txn_index_empty"]
        assert each.is_flushed
        epochs = ", ".join(
            f"{epoch}={start}" for epoch, start in log.leader_epochs.lineage.between(base, each.end_offset)
        )
        assert epochs == row["leader_epochs"]
        files = {
            ".log": Path(each.log_path).read_bytes(),
            ".index": Path(each.offset_index_path).read_bytes(),
            ".timeindex": Path(each.time_index_path).read_bytes(),
            ".snapshot": Path(each.producer_snapshot_path).read_bytes(),
            ".leader_epoch_checkpoint": log.leader_epochs.encode(each.end_offset + 1),
        }
        for suffix, content in files.items():
            (stored,) = TIER.rglob(f"{base:020d}-{row['segment_id']}{suffix}")
            assert content == stored.read_bytes(), (base, suffix)
