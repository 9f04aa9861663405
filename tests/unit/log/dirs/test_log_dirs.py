from __future__ import annotations

import errno
import logging
import uuid

import pytest

from crabka.errors import StorageError
from crabka.formats.meta_properties import MetaProperties
from crabka.log.dirs.log_dirs import LogDirs
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.ports import DiskUsage
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem

PATHS = ("/d1", "/d2", "/d3")


class DisksOfDifferentSize(MemoryFileSystem):
    """Every log dir is a disk of its own."""

    def disk_usage(self, path: str) -> DiskUsage:
        """Return size and free space."""
        return DiskUsage(total_bytes=100, free_bytes={"/d1": 10, "/d2": 30, "/d3": 20}[path])


def dirs(fs: FaultyFileSystem | None = None) -> LogDirs:
    return LogDirs(fs or FaultyFileSystem(MemoryFileSystem()), PATHS)


def test_a_dir_that_failed_is_offline_with_its_first_reason() -> None:
    registry = dirs()
    assert registry.fail("/d2", "EIO")
    assert not registry.fail("/d2", "EROFS")
    assert not registry.fail("/elsewhere", "no log dir")
    assert (registry.online, registry.offline) == (["/d1", "/d3"], ["/d2"])
    assert (registry.offline_reason("/d2"), registry.offline_reason("/d1")) == ("EIO", None)
    assert [registry.is_online(path) for path in ("/d1", "/d2", "/elsewhere")] == [True, False, False]
    assert "/d2" in registry
    assert "/elsewhere" not in registry


def test_a_new_log_goes_where_the_fewest_are() -> None:
    assert dirs().choose({"/d1": 2, "/d2": 1, "/d3": 2}) == "/d2"


def test_among_equals_the_dir_with_most_space_is_chosen() -> None:
    registry = LogDirs(DisksOfDifferentSize(), PATHS)
    assert registry.choose({}) == "/d2"
    assert registry.choose({"/d2": 1}) == "/d3"


def test_a_dir_that_does_not_report_its_space_comes_last_among_equals() -> None:
    memory = MemoryFileSystem()
    for path in PATHS:
        memory.makedirs(path)
    fs = FaultyFileSystem(memory, [FaultRule(operation="disk_usage", path="/d1", error=errno.EIO)])
    assert dirs(fs).choose({"/d3": 1}) == "/d2"


def test_offline_and_cordoned_dirs_get_no_new_logs() -> None:
    registry = dirs()
    registry.fail("/d1", "EIO")
    registry.cordon(["/d2"])
    assert registry.cordoned == ["/d2"]
    assert registry.choose({"/d3": 100}) == "/d3"
    registry.cordon([])
    assert registry.cordoned == []
    assert registry.choose({"/d3": 100}) == "/d2"


def test_with_all_dirs_cordoned_a_log_is_placed_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    registry = dirs()
    registry.cordon(PATHS)
    with caplog.at_level(logging.WARNING):
        assert registry.choose({"/d1": 1, "/d2": 0, "/d3": 1}) == "/d2"
    assert "cordoned" in caplog.text


def test_without_a_dir_that_works_there_is_no_place() -> None:
    registry = dirs()
    for path in PATHS:
        registry.fail(path, "EIO")
    with pytest.raises(StorageError, match="no log dir is online"):
        registry.choose({})


def test_ids_are_those_of_formatted_dirs() -> None:
    fs = MemoryFileSystem()
    known = uuid.UUID(int=1001)
    for path in PATHS:
        fs.makedirs(path)
    write_meta_properties(fs, "/d2", MetaProperties(cluster_id="c", node_id=1, directory_id=known))
    registry = LogDirs(fs, PATHS)
    for log_dir in registry:
        log_dir.open()
    assert registry.directory_id("/d1") is None
    assert registry.directory_id("/d2") == known
    assert registry.ids_of(PATHS) == [known]
    for log_dir in registry:
        log_dir.close()


def test_a_path_belongs_to_the_innermost_dir_that_works() -> None:
    registry = LogDirs(MemoryFileSystem(), ("/d1", "/d1/inner", "/d2"))
    assert registry.owner_of("/d1/t-0/1.log") == "/d1"
    assert registry.owner_of("/d1/inner/t-0") == "/d1/inner"
    assert registry.owner_of("/d11/t-0") is None
    registry.fail("/d1/inner", "EIO")
    assert registry.owner_of("/d1/inner/t-0") is None
