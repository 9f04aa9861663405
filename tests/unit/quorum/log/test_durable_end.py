from __future__ import annotations

import random

import pytest

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.quorum.log.durable_end import FILE_NAME, SLOT_BYTES, DurableEnd, read_durable_end
from crabka.testing.memory_file_system import MemoryFileSystem
from tests.support.faults.rotting import flip

PATH = f"/m/{FILE_NAME}"


@pytest.fixture
def fs() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.makedirs("/m")
    disk.fsync_dir("/")
    return disk


def end(offset: int, epoch: int = 1) -> OffsetAndEpoch:
    return OffsetAndEpoch(offset, epoch)


def test_a_directory_without_a_note_has_none(fs: MemoryFileSystem) -> None:
    assert read_durable_end(fs, "/m") is None
    assert DurableEnd(fs, "/m", "c").end is None


def test_a_note_goes_up_only_unless_it_is_replaced(fs: MemoryFileSystem) -> None:
    note = DurableEnd(fs, "/m", "c")
    for offset in (3, 7, 5):
        note.raise_to(end(offset))
    assert note.end == (7, 1)
    note.raise_to(end(4, 2))
    assert note.end == (4, 2)
    note.replace(end(2, 1))
    fs.crash()
    noted = read_durable_end(fs, "/m")
    assert noted is not None
    assert (noted.end, noted.cluster_id) == ((2, 1), "c")


def test_a_clean_close_makes_it_durable(fs: MemoryFileSystem) -> None:
    note = DurableEnd(fs, "/m", "c")
    note.raise_to(end(9))
    note.close()
    fs.crash()
    assert DurableEnd(fs, "/m", "c").end == (9, 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_leaves_a_value_that_was_noted_before(fs: MemoryFileSystem, seed: int) -> None:
    note = DurableEnd(fs, "/m", "c")
    note.replace(end(1))
    for offset in range(2, 6):
        note.raise_to(end(offset))
    fs.crash(random.Random(seed), block_bytes=64)
    found = DurableEnd(fs, "/m", "c").end
    assert found is None or found in [end(offset) for offset in range(1, 6)]


def test_a_damaged_slot_leaves_the_other(fs: MemoryFileSystem) -> None:
    note = DurableEnd(fs, "/m", "c")
    note.raise_to(end(3))
    note.raise_to(end(7))
    newest = fs.open(PATH)
    newest.pwritev([b"x"], 20)
    assert DurableEnd(fs, "/m", "c").end == (3, 1)
    newest.pwritev([b"x"], SLOT_BYTES + 20)
    assert DurableEnd(fs, "/m", "c").end is None


def test_a_long_cluster_id_fits(fs: MemoryFileSystem) -> None:
    note = DurableEnd(fs, "/m", "a b" * 40)
    note.raise_to(end((1 << 62), (1 << 31) - 1))
    noted = read_durable_end(fs, "/m")
    assert noted is not None
    assert noted.cluster_id == "a b" * 40


@pytest.mark.parametrize("slots", [{0}, {1}, {0, 1}])
def test_damaged_slots_are_written_anew_from_memory(fs: MemoryFileSystem, slots: set[int]) -> None:
    note = DurableEnd(fs, "/m", "c")
    for offset in range(1, 4):
        note.raise_to(OffsetAndEpoch(offset, 1))
        assert note.mend() == ""
    for slot in slots:
        flip(fs, PATH, slot * SLOT_BYTES + 30)
    assert f"{2 - len(slots)} of 2 slots" in note.mend()
    assert note.mend() == ""
    note.raise_to(OffsetAndEpoch(9, 2))
    fs.crash()
    for slot in range(2):
        assert read_durable_end(fs, "/m") is not None
        flip(fs, PATH, slot * SLOT_BYTES + 30)


def test_a_note_that_is_gone_is_written_again(fs: MemoryFileSystem) -> None:
    note = DurableEnd(fs, "/m", "c")
    assert note.mend() == ""
    note.raise_to(OffsetAndEpoch(3, 1))
    fs.unlink(PATH)
    assert note.mend()
    noted = read_durable_end(fs, "/m")
    assert noted is not None
    assert noted.end == OffsetAndEpoch(3, 1)
