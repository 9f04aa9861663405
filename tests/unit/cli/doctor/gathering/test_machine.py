"""What is seen of nodes on this machine."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from uuid import UUID

import pytest

from crabka.cli.doctor.gathering import machine
from crabka.formats.meta_properties import MetaProperties
from crabka.log.dirs.log_dir import LogDir
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.vfs import OsFileSystem

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_directory_is_known_by_cluster_and_node(tmp_path: Path) -> None:
    path = str(tmp_path)
    assert not machine.is_dir_of(path, "c", 1)
    write_meta_properties(OsFileSystem(), path, MetaProperties("c", 1, UUID(int=1)))
    assert machine.is_dir_of(path, "c", 1)
    assert not machine.is_dir_of(path, "c", 2)
    assert not machine.is_dir_of(path, "d", 1)
    (tmp_path / "meta.properties").write_text("garbage")
    assert not machine.is_dir_of(path, "c", 1)
    assert not machine.is_dir_of(f"{path}/meta.properties", "c", 1)


def test_syncs_leave_nothing_behind(tmp_path: Path) -> None:
    times = machine.measure_syncs(str(tmp_path))
    assert len(times) == 8
    assert min(times) > 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError):
        machine.measure_syncs(str(tmp_path / "gone"))


@linux
def test_the_process_that_holds_a_directory_is_found(tmp_path: Path) -> None:
    assert machine.lock_holder(str(tmp_path)) is None
    directory = LogDir(OsFileSystem(), str(tmp_path))
    directory.open()
    assert machine.lock_holder(str(tmp_path)) in (os.getpid(), 0)
    directory.close()
    assert machine.lock_holder(str(tmp_path)) is None


@linux
def test_open_files_are_counted_against_the_limit() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = machine.open_files(os.getpid())
    assert before is not None
    with Path(__file__).open():
        during = machine.open_files(os.getpid())
    assert during == (before[0] + 1, soft)
    # No process has this id.
    assert machine.open_files(2**31 - 1) is None
