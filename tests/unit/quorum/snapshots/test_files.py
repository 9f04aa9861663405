from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crabka.errors import CorruptDataError
from crabka.metadata.records import ConfigRecord
from crabka.quorum.snapshots.files import (
    SnapshotContent,
    SnapshotId,
    check_snapshot,
    encode_snapshot,
    list_snapshots,
    read_snapshot,
    read_snapshot_head,
    remove_partial_snapshots,
    write_snapshot,
)
from crabka.records.header import iter_headers
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import write_atomic
from tests.support.faults.rotting import flip
from tests.support.quorum.node import VOTER
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.metadata_logs import METADATA_DIRS, checkpoints

FILES = [path for directory in METADATA_DIRS for path in checkpoints(directory)]


def _fresh_disk() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    fs.fsync_dir("/")
    return fs


def _configs(count: int, value: str = "v") -> list[Any]:
    return [ConfigRecord(resource_type=2, resource_name="t", name=f"k{number}", value=value) for number in range(count)]


def _name(path: Path) -> str:
    return path.relative_to(GOLDEN).as_posix()


def _without_times(data: bytes) -> list[bytes]:
    """Return the batches with checksum and timestamps blanked: Kafka stamps each batch of a file with its own time."""
    batches = []
    for position, header in iter_headers(data):
        batch = bytearray(data[position : position + header.size_in_bytes])
        batch[17:21] = bytes(4)
        batch[27:43] = bytes(16)
        batches.append(bytes(batch))
    return batches


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_kafkas_snapshots_are_written_again_byte_for_byte(path: Path) -> None:
    fs = copy_to_memory(path.parent, "/m")
    content = read_snapshot(fs, f"/m/{path.name}")
    epoch = int(path.stem.split("-")[1])
    ours = b"".join(encode_snapshot(content, epoch=epoch, now_ms=1))
    assert _without_times(ours) == _without_times(path.read_bytes())


def test_the_snapshot_of_a_formatted_voter_holds_its_voters() -> None:
    fs = copy_to_memory(GOLDEN / "quorum" / "just_formatted" / "c1", "/c1")
    content = read_snapshot(fs, f"/c1/__cluster_metadata-0/{SnapshotId(0, 0).file_name}")
    assert content.kraft_version == 1
    assert [voter.voter_id for voter in content.voters] == [1]
    assert content.records == []


def test_a_bootstrap_file_has_feature_levels_and_no_voters() -> None:
    fs = copy_to_memory(GOLDEN / "quorum" / "just_formatted" / "c2", "/c2")
    content = read_snapshot(fs, "/c2/bootstrap.checkpoint")
    assert (content.kraft_version, content.voters) == (0, ())
    assert len(content.records) == 6


def test_what_is_written_is_read_back_after_a_crash() -> None:
    fs = _fresh_disk()
    snapshot = SnapshotContent(_configs(3), 77, 1, (VOTER,))
    size = write_snapshot(fs, "/m/x.checkpoint", snapshot, epoch=4, now_ms=99)
    fs.crash()
    assert read_snapshot(fs, "/m/x.checkpoint") == snapshot
    assert fs.stat("/m/x.checkpoint").size_bytes == size
    assert read_snapshot_head(fs, "/m/x.checkpoint").timestamp_ms == 77
    assert fs.listdir("/m") == ["x.checkpoint"]


def test_many_records_are_split_into_batches_with_rising_offsets() -> None:
    data = b"".join(encode_snapshot(SnapshotContent(_configs(40, "v" * 100_000)), epoch=1, now_ms=1))
    headers = [header for _, header in iter_headers(data)]
    assert len(headers) > 4
    assert all(header.size_in_bytes < (1 << 21) for header in headers)
    assert [header.base_offset for header in headers[1:]] == [header.next_offset for header in headers[:-1]]


def test_snapshots_are_listed_by_offset_and_leftovers_removed() -> None:
    fs = _fresh_disk()
    for name in ("00000000000000000012-0000000002.checkpoint", "00000000000000000007-0000000001.checkpoint"):
        write_snapshot(fs, f"/m/{name}", SnapshotContent(()), epoch=1, now_ms=1)
    fs.open("/m/00000000000000000020-0000000002.checkpoint.part", create=True).close()
    fs.open("/m/bootstrap.checkpoint", create=True).close()
    assert list_snapshots(fs, "/m") == [SnapshotId(7, 1), SnapshotId(12, 2)]
    remove_partial_snapshots(fs, "/m")
    assert not [name for name in fs.listdir("/m") if name.endswith(".part")]


@pytest.mark.parametrize("cut", [0, 10, 100, -1])
def test_a_cut_snapshot_is_refused(cut: int) -> None:
    fs = _fresh_disk()
    write_snapshot(fs, "/m/a.checkpoint", SnapshotContent(_configs(3)), epoch=1, now_ms=1)
    file = fs.open("/m/a.checkpoint")
    file.truncate(file.size() + cut if cut < 0 else cut)
    with pytest.raises(CorruptDataError):
        read_snapshot(fs, "/m/a.checkpoint")


def test_a_flipped_bit_is_found() -> None:
    fs = _fresh_disk()
    write_snapshot(fs, "/m/a.checkpoint", SnapshotContent(_configs(3)), epoch=1, now_ms=1)
    file = fs.open("/m/a.checkpoint")
    file.pwritev([b"\xff"], 150)
    with pytest.raises(CorruptDataError, match="checksum"):
        read_snapshot(fs, "/m/a.checkpoint")
    file.truncate(0)
    with pytest.raises(CorruptDataError, match="header"):
        read_snapshot_head(fs, "/m/a.checkpoint")


def test_ids_name_their_files() -> None:
    assert SnapshotId(384, 2).file_name == "00000000000000000384-0000000002.checkpoint"


def test_every_flipped_bit_of_a_snapshot_is_found() -> None:
    fs = _fresh_disk()
    path = "/m/a.checkpoint"
    write_snapshot(fs, path, SnapshotContent(_configs(3), 77, 1, (VOTER,)), epoch=3, now_ms=1)
    for position in range(fs.stat(path).size_bytes):
        flip(fs, path, position, 1 << position % 8)
        for reader in (read_snapshot, check_snapshot):
            with pytest.raises(CorruptDataError):
                reader(fs, path, 3)
        flip(fs, path, position, 1 << position % 8)
    assert check_snapshot(fs, path, 3) == fs.stat(path).size_bytes


def test_content_of_another_epoch_is_not_believed() -> None:
    fs = _fresh_disk()
    write_snapshot(fs, "/m/a.checkpoint", SnapshotContent(()), epoch=3, now_ms=1)
    with pytest.raises(CorruptDataError, match="epoch 3 instead of 4"):
        read_snapshot(fs, "/m/a.checkpoint", 4)


def test_a_snapshot_without_its_footer_is_not_complete() -> None:
    fs = _fresh_disk()
    head, *_ = encode_snapshot(SnapshotContent(()), epoch=3, now_ms=1)
    write_atomic(fs, "/m/a.checkpoint", head)
    for reader in (read_snapshot, check_snapshot):
        with pytest.raises(CorruptDataError, match="not a complete snapshot"):
            reader(fs, "/m/a.checkpoint", 3)
    assert read_snapshot_head(fs, "/m/a.checkpoint").timestamp_ms == 0
