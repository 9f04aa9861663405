"""Marker files of swaps."""

from __future__ import annotations

import uuid

import pytest

from crabka.broker.logdirs.move_journal import (
    MoveMarker,
    decode_marker,
    encode_marker,
    find_markers,
    marker_path,
    remove_marker,
    sweep_markers,
    write_marker,
)
from crabka.formats.file_names import parse_directory_name
from crabka.ids import TopicPartition
from crabka.testing import MemoryFileSystem

MARKER = MoveMarker(TopicPartition("t", 3), uuid.UUID(int=1), uuid.UUID(int=2), None, "t-3.00-future")
UNIQUE = uuid.UUID(int=9)


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.makedirs("/d")
    fs.fsync_dir("/")
    return fs


def test_a_marker_reads_as_it_was_written() -> None:
    assert decode_marker(encode_marker(MARKER)) == MARKER


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version": 2}', b"\xff", b"null"])
def test_what_is_no_marker_is_none(data: bytes) -> None:
    assert decode_marker(data) is None


def test_a_marker_survives_a_power_cut_until_it_is_removed(fs: MemoryFileSystem) -> None:
    path = marker_path("/d", UNIQUE)
    write_marker(fs, path, MARKER)
    fs.crash()
    assert [each.marker for each in find_markers(fs, "/d")] == [MARKER]
    remove_marker(fs, path)
    remove_marker(fs, path)
    fs.crash()
    assert find_markers(fs, "/d") == []


def test_other_files_are_left_alone(fs: MemoryFileSystem) -> None:
    path = marker_path("/d", UNIQUE)
    for name in ("meta.properties", "move-x.json", f"move-{UNIQUE.hex}.json"):
        fs.open(f"/d/{name}", create=True).close()
    assert find_markers(fs, "/d") == []
    fs.open(f"{path}.tmp", create=True).close()
    sweep_markers(fs, "/d")
    assert fs.listdir("/d") == ["meta.properties", f"move-{UNIQUE.hex}.json", "move-x.json"]


def test_a_marker_is_no_name_of_a_log() -> None:
    assert parse_directory_name(marker_path("", UNIQUE)[1:]) is None
