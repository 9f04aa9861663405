"""Directories that are removed whatever happens to their owner."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from crabka.embedded.temporary_dir import PREFIX, TemporaryDir


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_is_removed_with_its_content(tmp_path: Path) -> None:
    directory = TemporaryDir()
    (directory.path / "data").mkdir()
    (directory.path / "data" / "file").touch()
    directory.remove()
    directory.remove()
    assert not list(tmp_path.iterdir())


def test_it_is_removed_when_it_is_forgotten(tmp_path: Path) -> None:
    directory = TemporaryDir()
    assert list(tmp_path.iterdir()) == [directory.path]
    del directory
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_that_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    code = "from crabka.embedded.temporary_dir import TemporaryDir as T; d = T(); print(d.path, flush=True); input()"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        left_behind = Path(process.stdout.readline().strip())
        first = TemporaryDir()
        assert left_behind.exists()
        process.send_signal(signal.SIGKILL)
    assert left_behind.exists()
    second = TemporaryDir()
    assert sorted(tmp_path.iterdir()) == sorted([first.path, second.path])
    assert left_behind.name.startswith(PREFIX)
    first.remove()
    second.remove()


def test_a_fork_removes_nothing(tmp_path: Path) -> None:
    directory = TemporaryDir()
    child = os.fork()
    if not child:
        directory.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert directory.path.exists()
    directory.remove()
