"""The leak checks of tests/conftest.py catch what they claim to catch."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crabka.embedded.temporary_dir import PREFIX
from tests.support import leaks
from tests.support.leaks import describe_leaks, take_snapshot, watch_pending_tasks

ROOT = Path(__file__).parents[2]
PLANTED = """
import asyncio
import logging

async def forget_a_task():
    asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)

def test_forgets_a_file(tmp_path):
    global kept
    kept = open(tmp_path / "kept", "wb")

def test_forgets_a_task():
    asyncio.run(forget_a_task())

def test_forgets_its_log_level():
    logging.getLogger().setLevel("INFO")

def test_forgets_nothing():
    pass
"""


def test_the_fixture_fails_the_tests_that_leak_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED)
    command = [sys.executable, "-m", "pytest", "-q", "-rE", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, "test_planted.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    summary = [line for line in result.stdout.splitlines() if line.startswith("ERROR ")]
    assert [line.split("::")[1].split()[0] for line in summary] == [
        "test_forgets_a_file",
        "test_forgets_a_task",
        "test_forgets_its_log_level",
    ]
    assert result.stdout.splitlines()[-1].startswith("4 passed")


def test_nothing_is_reported_when_everything_is_closed(tmp_path: Path) -> None:
    before = take_snapshot()
    with (tmp_path / "file").open("wb") as file:
        file.write(b"x")
    thread = threading.Thread(target=lambda: None)
    thread.start()
    assert describe_leaks(before) == []


@pytest.mark.skipif(not os.path.isdir(leaks.FD_DIRECTORY), reason="descriptors are listed on Linux only")
def test_an_open_file_and_an_open_socket_are_reported(tmp_path: Path) -> None:
    before = take_snapshot()
    with (tmp_path / "forgotten.log").open("wb"), socket.socket():
        lines = describe_leaks(before)
    assert len(lines) == 2
    assert any("forgotten.log" in line for line in lines)
    assert any("socket:" in line for line in lines)


def test_a_running_thread_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "THREAD_GRACE_S", 0.01)
    before = take_snapshot()
    release = threading.Event()
    thread = threading.Thread(target=release.wait, name="forgotten-thread")
    thread.start()
    try:
        assert describe_leaks(before) == ["thread forgotten-thread"]
    finally:
        release.set()
        thread.join()


def test_logging_that_stays_set_up_is_reported() -> None:
    before, root = take_snapshot(), logging.getLogger()
    handler, level = logging.NullHandler(), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        assert describe_leaks(before) == [f"log handler {handler}", "log level DEBUG"]
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@pytest.mark.allow_leaks("the leak is the subject of the test")
def test_a_task_that_asyncio_run_has_to_cancel_is_reported() -> None:
    async def forget_a_task() -> None:
        task = asyncio.create_task(asyncio.Event().wait(), name="forgotten-task")
        await asyncio.sleep(0)
        assert not task.done()

    with watch_pending_tasks() as pending:
        asyncio.run(forget_a_task())
    assert len(pending) == 1
    assert "forgotten-task" in pending[0]


def test_a_task_that_ends_is_not_reported() -> None:
    async def finish_a_task() -> None:
        await asyncio.create_task(asyncio.sleep(0))

    with watch_pending_tasks() as pending:
        asyncio.run(finish_a_task())
    assert pending == []


@pytest.mark.skipif(not os.path.isdir(leaks.FD_DIRECTORY), reason="descriptors are listed on Linux only")
def test_files_of_a_broker_that_ran_before_are_not_left_behind(tmp_path: Path) -> None:
    older, newer = tmp_path / f"{PREFIX}older", tmp_path / f"{PREFIX}newer"
    for each in (older, newer):
        each.mkdir()
    with (older / ".lock").open("w"):
        before = take_snapshot()
        with (older / "checkpoint.tmp").open("w"), (newer / "log").open("w"):
            [line] = describe_leaks(before)
            assert line.endswith(f"{PREFIX}newer/log")
