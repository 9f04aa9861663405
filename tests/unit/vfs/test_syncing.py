from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from crabka.ports import File
from crabka.vfs.syncing import SYNCS_AT_ONCE, sync_each, sync_together

PATIENCE_S = 30.0


class SyncedFile:
    """A file that is synced as the test says."""

    def __init__(self, sync: Callable[[], object]) -> None:
        self._sync = sync

    def fsync(self) -> None:
        self._sync()


def files(*syncs: Callable[[], object]) -> list[File]:
    return [cast("File", SyncedFile(sync)) for sync in syncs]


def fail() -> None:
    raise OSError(errno.EIO, "broken")


def test_files_are_synced_at_the_same_time() -> None:
    meeting = threading.Barrier(SYNCS_AT_ONCE)
    assert sync_together(files(*[lambda: meeting.wait(PATIENCE_S)] * SYNCS_AT_ONCE)) == [None] * SYNCS_AT_ONCE


@pytest.mark.parametrize("sync", [sync_each, sync_together])
def test_each_file_has_an_outcome_of_its_own(sync: Callable[[Sequence[File]], list[OSError | None]]) -> None:
    synced: list[int] = []
    outcomes = sync(files(lambda: synced.append(1), fail, lambda: synced.append(3)))
    assert [outcome and outcome.errno for outcome in outcomes] == [None, errno.EIO, None]
    assert sorted(synced) == [1, 3]


@pytest.mark.parametrize("count", [0, 1])
def test_what_is_alone_needs_no_thread(count: int) -> None:
    seen: list[threading.Thread] = []
    assert sync_together(files(*[lambda: seen.append(threading.current_thread())] * count)) == [None] * count
    assert seen == [threading.current_thread()] * count
