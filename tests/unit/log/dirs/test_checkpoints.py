from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import (
    heal_offset_checkpoint,
    read_clean_shutdown,
    read_offset_checkpoint,
    write_clean_shutdown,
    write_offset_checkpoint,
)
from crabka.testing import MemoryFileSystem
from crabka.vfs import read_file, write_atomic

OFFSETS = {TopicPartition("orders", 0): 5, TopicPartition("a.b-c_d", 12): 1 << 40}


def test_offset_checkpoints_have_kafkas_text() -> None:
    fs = MemoryFileSystem()
    write_offset_checkpoint(fs, "/checkpoint", OFFSETS)
    assert read_file(fs, "/checkpoint") == b"0\n2\norders 0 5\na.b-c_d 12 1099511627776\n"
    assert read_offset_checkpoint(fs, "/checkpoint") == OFFSETS


def test_a_missing_checkpoint_is_empty() -> None:
    assert read_offset_checkpoint(MemoryFileSystem(), "/absent") == {}


def test_a_malformed_checkpoint_is_refused() -> None:
    fs = MemoryFileSystem()
    write_atomic(fs, "/checkpoint", b"garbage")
    with pytest.raises(CorruptDataError, match="/checkpoint"):
        read_offset_checkpoint(fs, "/checkpoint")


def test_clean_shutdown_carries_the_broker_epoch() -> None:
    fs = MemoryFileSystem()
    assert read_clean_shutdown(fs, "/clean") is None
    write_clean_shutdown(fs, "/clean", 306)
    assert read_file(fs, "/clean") == b'{"version":0,"brokerEpoch":306}'
    assert read_clean_shutdown(fs, "/clean") == 306


def test_an_empty_clean_shutdown_file_counts_as_clean() -> None:
    fs = MemoryFileSystem()
    write_atomic(fs, "/clean", b"")
    assert read_clean_shutdown(fs, "/clean") == -1


def test_a_digit_that_became_another_is_not_believed() -> None:
    fs = MemoryFileSystem()
    write_offset_checkpoint(fs, "/checkpoint", OFFSETS)
    fs.rot("/checkpoint", 13, 8)
    assert read_file(fs, "/checkpoint").startswith(b"0\n2\norders 0 =\n")
    assert read_offset_checkpoint(fs, "/checkpoint") == OFFSETS
    fs.rot("/checkpoint", 13, 0xF)
    assert read_file(fs, "/checkpoint").startswith(b"0\n2\norders 0 2\n")
    assert read_offset_checkpoint(fs, "/checkpoint") == OFFSETS
    offsets, reason = heal_offset_checkpoint(fs, "/checkpoint")
    assert offsets == OFFSETS
    assert "its bytes have changed" in reason
    assert read_file(fs, "/checkpoint").startswith(b"0\n2\norders 0 5\n")
    assert heal_offset_checkpoint(fs, "/checkpoint") == (OFFSETS, "")


def test_a_malformed_checkpoint_of_another_writer_does_not_replace_the_copy() -> None:
    now_ms = 1
    fs = MemoryFileSystem(now_ms=lambda: now_ms)
    write_offset_checkpoint(fs, "/checkpoint", OFFSETS)
    copy = read_file(fs, "/crabka-copy-of-checkpoint")
    now_ms = 2
    write_atomic(fs, "/checkpoint", b"garbage")
    with pytest.raises(CorruptDataError):
        heal_offset_checkpoint(fs, "/checkpoint")
    assert read_file(fs, "/crabka-copy-of-checkpoint") == copy


def test_a_missing_checkpoint_stays_missing_although_there_is_a_copy() -> None:
    fs = MemoryFileSystem()
    write_offset_checkpoint(fs, "/checkpoint", OFFSETS)
    fs.unlink("/checkpoint")
    assert read_offset_checkpoint(fs, "/checkpoint") == {}
    assert heal_offset_checkpoint(fs, "/checkpoint") == ({}, "")
    assert not fs.exists("/checkpoint")
