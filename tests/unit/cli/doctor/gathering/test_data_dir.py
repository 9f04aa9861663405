"""The facts of directories, as they are found on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from crabka.cli.doctor.checks.data_dir import QuorumFault, find_data_dir
from crabka.cli.doctor.gathering.data_dir import gather_data_dir
from crabka.formats.meta_properties import MetaProperties
from crabka.log.dirs.checkpoints import write_offset_checkpoint
from crabka.log.dirs.log_dir import LogDir
from crabka.log.dirs.meta_properties import write_meta_properties
from crabka.vfs import OsFileSystem
from crabka.vfs.guarded_file import Finding as CopyState
from tests.support.doctor.findings import texts

IDENTITY = MetaProperties("c", 1, UUID(int=1))
CHECKPOINT = "recovery-point-offset-checkpoint"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_meta_properties(OsFileSystem(), str(tmp_path), IDENTITY)
    write_offset_checkpoint(OsFileSystem(), str(tmp_path / CHECKPOINT), {})
    return tmp_path


def contents(path: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in path.iterdir() if each.is_file()}


def test_a_directory_is_read_and_not_changed(directory: Path) -> None:
    before = contents(directory)
    facts = gather_data_dir(str(directory))
    assert contents(directory) == before
    assert (facts.identity, facts.identity_problem, facts.locked_by) == (IDENTITY, None, None)
    assert {state for _, state in facts.guarded} == {CopyState.WHOLE}
    assert [*facts.unreadable, *facts.quorum_faults, *facts.denied] == []
    assert 0 < facts.free_bytes <= facts.total_bytes
    assert len(facts.sync_ms) == 8


def test_what_is_no_directory_is_said(tmp_path: Path) -> None:
    assert not gather_data_dir(str(tmp_path / "gone")).exists
    (tmp_path / "file").touch()
    assert not gather_data_dir(str(tmp_path / "file")).is_directory


def test_rot_of_small_files_is_found(directory: Path) -> None:
    path = directory / "meta.properties"
    found = path.stat()
    path.write_bytes(path.read_bytes().replace(b"node.id=1", b"node.id=9"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    facts = gather_data_dir(str(directory))
    # The copy counts.
    assert facts.identity == IDENTITY
    assert (str(path), CopyState.ROTTEN) in facts.guarded


def test_files_that_cannot_be_parsed_are_found(directory: Path) -> None:
    (directory / "meta.properties").write_text("garbage")
    (directory / CHECKPOINT).write_text("garbage")
    facts = gather_data_dir(str(directory))
    assert facts.identity is None
    assert facts.identity_problem is not None
    assert [path for path, _ in facts.unreadable] == [str(directory / CHECKPOINT)]


def test_a_directory_in_use_is_found(directory: Path) -> None:
    lock = LogDir(OsFileSystem(), str(directory))
    lock.open()
    assert gather_data_dir(str(directory)).locked_by is not None
    lock.close()


def test_faults_of_the_quorum_are_found(directory: Path) -> None:
    log = directory / "__cluster_metadata-0"
    log.mkdir()
    (log / "quorum-state").write_text("garbage")
    (fault,) = gather_data_dir(str(directory)).quorum_faults
    assert isinstance(fault, QuorumFault)
    assert "quorum-state" in fault.problem


@pytest.mark.skipif(os.geteuid() == 0, reason="every file is open to this user")
def test_what_this_user_may_not_touch_is_found(directory: Path) -> None:
    (directory / "t-0").mkdir()
    (directory / "t-0" / "0.log").touch(mode=0o444)
    assert gather_data_dir(str(directory)).denied == (str(directory / "t-0" / "0.log"),)


def test_a_new_directory_says_how_to_format_it(tmp_path: Path) -> None:
    (finding,) = texts(find_data_dir(gather_data_dir(str(tmp_path))))[:1]
    assert finding == ("warning", f"{tmp_path} is not formatted: it has no meta.properties.")
