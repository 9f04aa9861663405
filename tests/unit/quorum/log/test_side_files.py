from __future__ import annotations

import pytest

from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.quorum.log.side_files import SideFiles
from crabka.testing.memory_file_system import MemoryFileSystem
from crabka.vfs import read_file, write_atomic
from tests.support.faults.rotting import flip

NAMES = ["leader-epoch-checkpoint", "partition.metadata", "00000000000000000007.snapshot"]


def written() -> tuple[MemoryFileSystem, SideFiles, LeaderEpochCache]:
    fs = MemoryFileSystem()
    fs.makedirs("/m")
    files, epochs = SideFiles(fs, "/m"), LeaderEpochCache([(1, 0), (3, 9)])
    files.write_epochs(epochs)
    files.write_producer_snapshot(7)
    assert files.mend_partition_metadata() == ""
    assert list(files.mend(epochs)) == []
    return fs, files, epochs


@pytest.mark.parametrize("name", NAMES)
def test_every_flipped_byte_is_found_and_put_right(name: str) -> None:
    fs, files, epochs = written()
    path = f"/m/{name}"
    whole = read_file(fs, path)
    for position in range(len(whole)):
        flip(fs, path, position, 1 << position % 8)
        (reason,) = files.mend(epochs)
        assert path in reason
        assert read_file(fs, path) == whole


def test_missing_files_are_written_again() -> None:
    fs, files, epochs = written()
    fs.unlink("/m/leader-epoch-checkpoint")
    fs.unlink("/m/partition.metadata")
    assert len(list(files.mend(epochs))) == 1
    assert all(fs.exists(f"/m/{name}") for name in NAMES)


def test_epochs_that_are_not_written_yet_are_left_alone() -> None:
    fs, files, epochs = written()
    epochs.assign(5, 20)
    write_atomic(fs, "/m/leader-epoch-checkpoint", b"garbage")
    assert list(files.mend(epochs)) == []
    assert files.read_epochs() is None
    files.write_epochs(epochs)
    assert files.read_epochs() == [(1, 0), (3, 9), (5, 20)]
