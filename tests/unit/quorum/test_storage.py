from __future__ import annotations

import pytest

from crabka.errors import ConfigError, CorruptDataError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.quorum.loading import load_read_only
from crabka.quorum.log.metadata_log import DIRECTORY_NAME
from crabka.quorum.log.survey import segment_bases
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, list_snapshots, write_snapshot
from crabka.quorum.snapshots.set_aside import DAMAGED_SUFFIX
from crabka.quorum.storage import MetadataStorage, read_meta_properties
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file
from tests.support.faults.rotting import flip
from tests.support.quorum.node import DIRECTORY, DIRECTORY_ID, LOG_DIRECTORY, VOTER, formatted_disk
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.files import GOLDEN


def _open(fs: MemoryFileSystem, directory: str = DIRECTORY) -> MetadataStorage:
    return MetadataStorage.open(fs, directory, MetadataLogSettings(), now_ms=1)


def test_a_formatted_directory_opens() -> None:
    storage = _open(formatted_disk())
    assert storage.properties.directory_id == DIRECTORY_ID
    assert storage.read_bootstrap()[0].name == "metadata.version"
    assert storage.log.end_offset == 0


def test_a_directory_without_identity_is_not_formatted() -> None:
    fs = MemoryFileSystem()
    fs.makedirs(DIRECTORY)
    with pytest.raises(ConfigError, match="not formatted"):
        _open(fs)


def test_a_new_cluster_without_bootstrap_file_is_refused() -> None:
    fs = formatted_disk()
    fs.unlink(f"{DIRECTORY}/bootstrap.checkpoint")
    with pytest.raises(ConfigError, match="format the directory first"):
        _open(fs).read_bootstrap()


def test_a_damaged_identity_is_reported() -> None:
    fs = formatted_disk()
    fs.open(f"{DIRECTORY}/meta.properties").truncate(3)
    with pytest.raises(CorruptDataError):
        read_meta_properties(fs, DIRECTORY)


def test_leftovers_of_an_interrupted_snapshot_are_removed() -> None:
    fs = formatted_disk()
    name = f"{LOG_DIRECTORY}/00000000000000000020-0000000002.checkpoint.part"
    fs.open(name, create=True).close()
    _open(fs)
    assert not fs.exists(name)


@pytest.mark.parametrize(("node", "offset"), [("single/d1", 452), ("quorum/c1", 396), ("quorum/c3", 395)])
def test_kafkas_directories_open_for_writing(node: str, offset: int) -> None:
    fs = copy_to_memory(GOLDEN / node, "/jvm")
    assert load_read_only(fs, f"/jvm/{DIRECTORY_NAME}").replay.image.offset == offset
    storage = _open(fs, "/jvm")
    assert storage.log.end_offset == offset + 1


def test_a_damaged_bootstrap_file_is_named_with_what_helps_and_read_only_by_a_new_cluster() -> None:
    fs = formatted_disk()
    flip(fs, f"{DIRECTORY}/bootstrap.checkpoint", 80)
    storage = _open(fs)
    with pytest.raises(CorruptDataError, match=r"bootstrap.checkpoint: wrong checksum.*format the directory anew"):
        storage.read_bootstrap()


def _with_snapshots(*offsets: int) -> MemoryFileSystem:
    """A log from offset 0 to 12 in small segments, and snapshots of some of it."""
    fs = formatted_disk()
    storage = MetadataStorage.open(fs, DIRECTORY, MetadataLogSettings(segment_bytes=300), now_ms=1)
    for offset in range(12):
        record = Record(offset, 10, None, encode_record(NoOpRecord()))
        storage.log.write([build_batch([record], base_offset=offset, leader_epoch=1)], 10)
    storage.close()
    for offset in offsets:
        path = f"{LOG_DIRECTORY}/{SnapshotId(offset, 1).file_name}"
        write_snapshot(fs, path, SnapshotContent((), 10, 1, (VOTER,)), epoch=1, now_ms=10)
    return fs


def test_a_damaged_snapshot_is_set_aside_and_an_older_one_counts_that_the_log_continues() -> None:
    fs = _with_snapshots(4, 8)
    newest = f"{LOG_DIRECTORY}/{SnapshotId(8, 1).file_name}"
    flip(fs, newest, 80)
    storage = _open(fs)
    assert storage.loaded.snapshot == SnapshotId(4, 1)
    assert (storage.log.start_offset, storage.log.end_offset) == (0, 12)
    assert storage.log.durable_end == storage.log.end
    assert list_snapshots(fs, LOG_DIRECTORY) == [SnapshotId(0, 0), SnapshotId(4, 1)]
    assert fs.exists(newest + DAMAGED_SUFFIX)


def test_without_a_whole_snapshot_the_log_from_offset_0_counts() -> None:
    fs = _with_snapshots(8)
    for snapshot in (SnapshotId(0, 0), SnapshotId(8, 1)):
        flip(fs, f"{LOG_DIRECTORY}/{snapshot.file_name}", 80)
    storage = _open(fs)
    assert (storage.loaded.snapshot, storage.log.end_offset) == (None, 12)
    assert storage.log.durable_end == storage.log.end


@pytest.mark.parametrize("has_note", [True, False])
@pytest.mark.parametrize("older", [None, 4])
def test_a_log_that_the_whole_snapshot_does_not_reach_is_a_loss(has_note: bool, older: int | None) -> None:
    fs = _with_snapshots(*([8] if older is None else [older, 8]))
    fs.unlink(f"{LOG_DIRECTORY}/{SnapshotId(0, 0).file_name}")
    for base in segment_bases(fs, LOG_DIRECTORY)[:2]:
        fs.unlink(f"{LOG_DIRECTORY}/{base:020d}.log")
    if not has_note:
        fs.unlink(f"{LOG_DIRECTORY}/crabka-durable-end")
    flip(fs, f"{LOG_DIRECTORY}/{SnapshotId(8, 1).file_name}", 80)
    storage = _open(fs)
    start = 0 if older is None else older
    assert (storage.log.start_offset, storage.log.end_offset) == (start, start)
    assert storage.loaded.snapshot == (None if older is None else SnapshotId(older, 1))
    assert storage.log.durable_end == OffsetAndEpoch(12, 1)


def test_a_refused_start_changes_nothing() -> None:
    fs = _with_snapshots(8)
    flip(fs, f"{LOG_DIRECTORY}/{SnapshotId(8, 1).file_name}", 80)
    before = {name: read_file(fs, f"{LOG_DIRECTORY}/{name}") for name in fs.listdir(LOG_DIRECTORY)}

    def refuse(*_found: object) -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        MetadataStorage.open(fs, DIRECTORY, MetadataLogSettings(), accept=refuse, now_ms=1)
    assert {name: read_file(fs, f"{LOG_DIRECTORY}/{name}") for name in fs.listdir(LOG_DIRECTORY)} == before
