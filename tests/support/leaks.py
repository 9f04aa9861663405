"""What a test leaves behind: asyncio tasks, file descriptors, threads and a root logger that was set up.

Taking a snapshot costs a listing of a small directory, so every test can afford one. Tasks are seen at the moment when
asyncio.run cancels what is still pending, which otherwise hides them.
"""

from __future__ import annotations

import asyncio
import asyncio.runners
import gc
import logging
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from unittest import mock

from crabka.embedded.temporary_dir import PREFIX

FD_DIRECTORY = "/proc/self/fd"
THREAD_GRACE_S = 60.0
BROKER_DIR: Final = re.compile(rf".*/{re.escape(PREFIX)}[^/]+")

# Opened once by the interpreter or a library and kept for the life of the process.
LASTING_TARGETS = ("/dev/null", "/dev/urandom", "/dev/random", "anon_inode:[pidfd]")


class ProcessSnapshot(NamedTuple):
    """The descriptors, threads and log handlers that exist at one moment, and what is logged."""

    descriptors: dict[int, str]
    threads: frozenset[threading.Thread]
    log_level: int
    log_handlers: frozenset[logging.Handler]


def take_snapshot() -> ProcessSnapshot:
    """Return what this process has now."""
    root = logging.getLogger()
    return ProcessSnapshot(_open_descriptors(), frozenset(threading.enumerate()), root.level, frozenset(root.handlers))


def describe_leaks(before: ProcessSnapshot) -> list[str]:
    """Return one line per thing that was not there before; ending threads get a moment."""
    return [*_leaked_descriptors(before.descriptors), *_leaked_threads(before.threads), *_leaked_logging(before)]


@contextmanager
def watch_pending_tasks() -> Iterator[list[str]]:
    """Collect a line for every task that asyncio.run finds unfinished and has to cancel."""
    pending: list[str] = []
    cancel_all = asyncio.runners._cancel_all_tasks  # type: ignore[attr-defined]

    def record_and_cancel(loop: asyncio.AbstractEventLoop) -> None:
        pending.extend(f"task {task.get_name()} still runs {task.get_coro()}" for task in asyncio.all_tasks(loop))
        cancel_all(loop)

    with mock.patch.object(asyncio.runners, "_cancel_all_tasks", record_and_cancel):
        yield pending


def _open_descriptors() -> dict[int, str]:
    descriptors: dict[int, str] = {}
    try:
        names = os.listdir(FD_DIRECTORY)
    except FileNotFoundError:  # not Linux: unclosed files still fail as ResourceWarning
        return descriptors
    for name in names:
        try:
            descriptors[int(name)] = os.readlink(f"{FD_DIRECTORY}/{name}")
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return descriptors


def _leaked_descriptors(before: dict[int, str]) -> list[str]:
    leaked = _new_descriptors(before)
    if leaked:
        # An object in a reference cycle closes its descriptor only when it is collected.
        gc.collect()
        leaked = _new_descriptors(before)
    # A broker of the session opens and closes files at any time; a test did not leave those behind.
    older = {_broker_dir(target) for target in before.values()} - {None}
    return [
        f"descriptor {number} -> {target}"
        for number, target in sorted(leaked.items())
        if _broker_dir(target) not in older
    ]


def _broker_dir(target: str) -> str | None:
    found = BROKER_DIR.match(target)
    return None if found is None else found[0]


def _new_descriptors(before: dict[int, str]) -> dict[int, str]:
    return {
        number: target
        for number, target in _open_descriptors().items()
        if before.get(number) != target and not target.startswith(LASTING_TARGETS)
    }


def _leaked_threads(before: frozenset[threading.Thread]) -> list[str]:
    deadline = time.monotonic() + THREAD_GRACE_S
    leaked = [thread for thread in threading.enumerate() if thread not in before]
    for thread in leaked:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [f"thread {thread.name}" for thread in leaked if thread.is_alive()]


def _leaked_logging(before: ProcessSnapshot) -> list[str]:
    """Other tests of this process would see more log records than they asked for, or write to a closed stream."""
    root = logging.getLogger()
    leaked = [f"log handler {handler}" for handler in root.handlers if handler not in before.log_handlers]
    if root.level != before.log_level:
        leaked.append(f"log level {logging.getLevelName(root.level)}")
    return leaked
