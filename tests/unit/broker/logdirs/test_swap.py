"""The file system steps of a swap."""

from __future__ import annotations

import errno
import uuid

import pytest

from crabka.broker.logdirs.move_journal import MoveMarker, find_markers
from crabka.broker.logdirs.swap import SwapFiles
from crabka.errors import StorageError
from crabka.ids import TopicPartition
from crabka.ports import FileSystem, NoFailpoints
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem

TP = TopicPartition("t", 0)
SOURCE, FUTURE = "/d1/t-0", f"/d2/t-0.{'0' * 32}-future"
MARKER = MoveMarker(TP, None, None, None, FUTURE.rpartition("/")[2])
UNIQUE = uuid.UUID(int=5)
DOOMED = f"t-0.{UNIQUE.hex}-delete"


class Places:
    """Remembers which failpoints were passed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def hit(self, name: str) -> None:
        self.names.append(name)


@pytest.fixture
def memory() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    for path in (SOURCE, FUTURE):
        fs.makedirs(path)
    for path in ("/", "/d1", "/d2"):
        fs.fsync_dir(path)
    return fs


def swap_on(fs: FileSystem, places: Places | None = None) -> SwapFiles:
    return SwapFiles(fs, places or NoFailpoints(), TP, source=SOURCE, future=FUTURE)


def test_every_step_survives_a_power_cut(memory: MemoryFileSystem) -> None:
    places = Places()
    swap = swap_on(memory, places)
    swap.mark(MARKER, UNIQUE)
    memory.crash()
    assert len(find_markers(memory, "/d2")) == 1
    swap.rename_future()
    memory.crash()
    assert (memory.exists(swap.final_path), memory.exists(SOURCE)) == (True, True)
    assert swap.retire_source(UNIQUE) == f"/d1/{DOOMED}"
    memory.crash()
    assert memory.listdir("/d1") == [DOOMED]
    swap.unmark()
    memory.crash()
    assert memory.listdir("/d2") == ["t-0"]
    assert places.names == [
        "move.before_marker",
        "move.after_marker",
        "move.before_future_renamed",
        "move.after_future_renamed",
        "move.after_future_synced",
        "move.before_source_renamed",
        "move.after_source_renamed",
        "move.after_source_synced",
        "move.before_marker_removed",
        "move.after_marker_removed",
    ]


def test_a_marker_is_written_once_and_removed_once(memory: MemoryFileSystem) -> None:
    swap = swap_on(memory)
    swap.unmark()
    swap.mark(MARKER, UNIQUE)
    swap.mark(MARKER, uuid.UUID(int=6))
    assert len(find_markers(memory, "/d2")) == 1
    swap.unmark()
    swap.unmark()
    assert find_markers(memory, "/d2") == []


def test_a_copy_loses_its_final_name_again(memory: MemoryFileSystem) -> None:
    swap = swap_on(memory)
    swap.rename_future()
    swap.rename_back()
    memory.crash()
    assert memory.exists(FUTURE)


def test_the_copy_of_a_deleted_log_goes_if_it_is_there(memory: MemoryFileSystem) -> None:
    swap = swap_on(memory)
    assert swap.delete_final(UNIQUE) is None
    swap.rename_future()
    assert swap.delete_final(UNIQUE) == f"/d2/{DOOMED}"
    memory.crash()
    assert memory.listdir("/d2") == [DOOMED]


@pytest.mark.parametrize(("step", "log_dir"), [("rename_future", "/d2"), ("retire_source", "/d1")])
def test_the_dir_that_failed_is_named(memory: MemoryFileSystem, step: str, log_dir: str) -> None:
    swap = swap_on(FaultyFileSystem(memory, [FaultRule(operation="fsync_dir", error=errno.EIO)]))
    with pytest.raises(StorageError) as raised:
        swap.rename_future() if step == "rename_future" else swap.retire_source(UNIQUE)
    assert raised.value.log_dir == log_dir
