from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import CorruptDataError
from crabka.metadata.records import MetadataVersionError
from crabka.quorum.loading import load_read_only, load_snapshot
from crabka.quorum.snapshots.files import SnapshotId
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.testing.faulty_file_system import FaultyFileSystem, read_only_disk
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import write_atomic
from tests.support.faults.rotting import flip
from tests.support.recorded.disk import copy_to_memory
from tests.support.recorded.metadata_logs import QUORUM, SINGLE, checkpoints, replay_file, replay_snapshot, segments


@pytest.mark.parametrize("directory", [SINGLE, *QUORUM], ids=["single", "c1", "c3", "b10"])
def test_kafkas_directories_load_to_the_image_that_their_files_add_up_to(directory: Path) -> None:
    loaded = load_read_only(copy_to_memory(directory, "/m"), "/m")
    newest = checkpoints(directory)[-1]
    expected = replay_snapshot(newest)
    for segment in segments(directory):
        replay_file(expected, segment, int(newest.stem.split("-")[0]))
    expected.publish()
    assert loaded.replay.image == expected.image
    assert loaded.snapshot is not None
    assert loaded.snapshot.file_name == newest.name


def test_voters_are_as_the_log_states_them() -> None:
    loaded = load_read_only(copy_to_memory(QUORUM[0], "/m"), "/m")
    assert loaded.kraft_version == 1
    assert [voter.voter_id for voter in loaded.voters] == [1, 2, 3]
    single = load_read_only(copy_to_memory(SINGLE, "/m"), "/m")
    assert [(voter.voter_id, voter.endpoints[0].port) for voter in single.voters] == [(1, 29093)]


def test_loading_read_only_writes_nothing() -> None:
    fs = FaultyFileSystem(copy_to_memory(SINGLE, "/m"), read_only_disk())
    assert load_read_only(fs, "/m").replay.image.offset == 452


def test_a_torn_tail_is_left_out_and_left_alone() -> None:
    fs = copy_to_memory(SINGLE, "/m")
    file = fs.open("/m/00000000000000000000.log")
    size = file.size()
    file.pwritev([b"\xff"], size - 3)
    loaded = load_read_only(fs, "/m")
    assert loaded.replay.image.offset < 452
    assert file.size() == size


def test_a_directory_without_anything_is_empty() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    loaded = load_snapshot(fs, "/m")
    assert (loaded.snapshot, loaded.voters, loaded.kraft_version) == (None, (), 0)
    assert load_read_only(fs, "/m").replay.image.is_empty


def test_only_the_log_behind_the_snapshot_counts_towards_the_next_one() -> None:
    fs = copy_to_memory(SINGLE, "/m")
    with_snapshot = load_read_only(fs, "/m")
    for snapshot_id in (SnapshotId(384, 2), SnapshotId(218, 1)):
        fs.unlink(f"/m/{snapshot_id.file_name}")
    without = load_read_only(fs, "/m")
    assert 0 < with_snapshot.bytes_behind_snapshot < without.bytes_behind_snapshot
    assert without.bytes_behind_snapshot == fs.stat("/m/00000000000000000000.log").size_bytes


def test_a_record_of_an_unknown_version_stops_the_loading() -> None:
    fs = copy_to_memory(SINGLE, "/m")
    file = fs.open("/m/00000000000000000000.log")
    batch = build_batch([Record(453, 1, None, bytes([1, 3, 9, 0]))], base_offset=453, leader_epoch=2)
    file.pwritev([batch], file.size())
    with pytest.raises(MetadataVersionError, match="PartitionRecord version 9"):
        load_read_only(fs, "/m")


def test_a_damaged_snapshot_is_passed_over_and_named() -> None:
    fs = copy_to_memory(SINGLE, "/m")
    whole = load_read_only(fs, "/m").replay.image
    newest = f"/m/{SnapshotId(384, 2).file_name}"
    flip(fs, newest, 200)
    loaded = load_snapshot(fs, "/m")
    assert loaded.snapshot == SnapshotId(218, 1)
    (damaged,) = loaded.damaged
    assert (damaged.snapshot_id, damaged.path, damaged.reason) == (
        SnapshotId(384, 2),
        newest,
        "wrong checksum at position 166",
    )
    # The log goes on from the older one.
    assert load_read_only(fs, "/m").replay.image == whole


def test_no_image_is_built_across_a_gap() -> None:
    fs = copy_to_memory(QUORUM[1], "/m")
    snapshots = checkpoints(QUORUM[1])
    assert load_read_only(fs, "/m").replay.image.offset > 0
    for path in snapshots:
        flip(fs, f"/m/{path.name}", 20)
    with pytest.raises(CorruptDataError, match=r"starts at offset \d+, and no valid file holds the offsets from 0"):
        load_read_only(fs, "/m")


def test_segments_that_do_not_follow_one_another_end_the_loading() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    for base in (0, 5):
        batch = build_batch([Record(base, 1, None, bytes([1, 20, 0, 0]))], base_offset=base, leader_epoch=1)
        write_atomic(fs, f"/m/{base:020d}.log", batch)
    assert load_read_only(fs, "/m").replay.image.offset == 0
