from __future__ import annotations

import uuid

import pytest

from crabka.formats.file_names import (
    BOOTSTRAP_SNAPSHOT,
    MAX_DIRECTORY_NAME,
    DirectoryKind,
    LogDirectoryName,
    cached_index_name,
    file_offset,
    marked_name,
    metadata_snapshot_name,
    offset_name,
    parse_cached_index_name,
    parse_directory_name,
    parse_metadata_snapshot_name,
)
from crabka.ids import TopicPartition

UNIQUE = uuid.UUID("3f4cfdd4-252e-4872-8cfc-2d34b44e0c4a")


def test_offsets_are_twenty_digits() -> None:
    assert offset_name(12_345) == "00000000000000012345"


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("00000000000000000036.log", 36),
        ("00000000000000000036.timeindex", 36),
        ("00000000000000000120.snapshot", 120),
        ("00000000000000000036.log.deleted", None),
        ("36.log", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_file_names_report_their_offset(name: str, offset: int | None) -> None:
    assert file_offset(name) == offset


@pytest.mark.parametrize("kind", [DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY])
def test_marked_directories_are_recognised(kind: DirectoryKind) -> None:
    name = marked_name(TopicPartition("a-b.c", 7), kind, UNIQUE)
    assert name == f"a-b.c-7.3f4cfdd4252e48728cfc2d34b44e0c4a-{kind.value}"
    assert parse_directory_name(name) == LogDirectoryName(TopicPartition("a-b.c", 7), kind)


def test_long_topic_names_are_cut_in_marked_directories() -> None:
    name = marked_name(TopicPartition("t" * 249, 12), DirectoryKind.DELETE, UNIQUE)
    assert len(name) == MAX_DIRECTORY_NAME
    assert name.endswith("-12.3f4cfdd4252e48728cfc2d34b44e0c4a-delete")


def test_plain_directories_are_logs() -> None:
    assert parse_directory_name("orders-2020-3") == LogDirectoryName(
        TopicPartition("orders-2020", 3), DirectoryKind.LOG
    )


@pytest.mark.parametrize("name", ["lost+found", "remote-log-index-cache", "orders", "-1", "orders-x"])
def test_other_directories_are_no_logs(name: str) -> None:
    assert parse_directory_name(name) is None


def test_snapshots_of_the_metadata_log_have_their_end_and_epoch_in_their_names() -> None:
    name = metadata_snapshot_name(42, 7)
    assert name == "00000000000000000042-0000000007.checkpoint"
    assert parse_metadata_snapshot_name(name) == (42, 7)
    for other in (BOOTSTRAP_SNAPSHOT, f"{name}.part", f"{name}.damaged", "42-7.checkpoint"):
        assert parse_metadata_snapshot_name(other) is None


def test_cached_indexes_of_remote_segments_have_kafkas_names() -> None:
    name = cached_index_name(67, UNIQUE, ".timeindex")
    assert name == "67_P0z91CUuSHKM_C00tE4MSg.timeindex"
    assert parse_cached_index_name(name) == (UNIQUE, ".timeindex")
    for other in ("", "notes.txt", "67_short.index", "67_P0z91CUuSHKM_C00tE4MSg"):
        with pytest.raises(ValueError, match="UUID"):
            parse_cached_index_name(other)
