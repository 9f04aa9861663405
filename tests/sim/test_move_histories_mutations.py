"""The histories of moves find planted bugs: each of these must make one fail."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable

import pytest

from crabka.broker.logdirs import copy_steps
from crabka.broker.logdirs.future_log import FutureLog
from crabka.broker.logdirs.resume import Contents, MoveResolution
from crabka.broker.partition.partition import Partition
from crabka.errors import OperationError
from crabka.formats.file_names import DirectoryKind
from crabka.ids import TopicPartition
from crabka.ports import FileSystem
from tests.support.moves.histories import run
from tests.support.moves.world import Controller, directory_id

MAX_SEEDS = 400


def rename_before_sync(patch: pytest.MonkeyPatch) -> None:
    """The future log gets its name while its bytes are only in memory."""

    def set_length(fs: FileSystem, path: str, size: int) -> None:
        file = fs.open(path, create=True)
        if file.size() != size:
            file.truncate(size)
        file.close()

    patch.setattr(copy_steps, "sync_at_length", set_length)


def directory_order_decides(patch: pytest.MonkeyPatch) -> None:
    def choose(
        self: MoveResolution,
        contents: Contents,
        topic_partition: TopicPartition,
        paths: list[str],
        _target: str | None,
    ) -> None:
        for path in sorted(paths)[1:]:
            self._set_aside(contents[path], path, topic_partition, DirectoryKind.DELETE)

    patch.setattr(MoveResolution, "_choose", choose)


def truncation_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FutureLog, "on_truncated", lambda _self, _base_offset, _size: None)


def controller_notified_late(patch: pytest.MonkeyPatch) -> None:
    async def assign(self: Controller, _partition: Partition, log_dir: str) -> None:
        model = self._world.model

        def commit() -> None:
            model.directory = directory_id(log_dir)

        asyncio.get_running_loop().call_later(0.2, commit)

    patch.setattr(Controller, "assign", assign)


def marker_without_metadata(patch: pytest.MonkeyPatch) -> None:
    """The marker alone decides, though the replica went on elsewhere while its disk was away."""
    original = MoveResolution._choose

    def choose(
        self: MoveResolution,
        contents: Contents,
        topic_partition: TopicPartition,
        paths: list[str],
        target: str | None,
    ) -> None:
        with pytest.MonkeyPatch.context() as inner:
            if target in paths:
                inner.setattr(MoveResolution, "_is_assigned", lambda _self, _tp, _path: False)
            original(self, contents, topic_partition, paths, target)

    patch.setattr(MoveResolution, "_choose", choose)


def names_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The names in the future log are not made durable."""

    def run_without(self: copy_steps.SyncCopy) -> int:
        self._names_dirty = False
        fresh = self._read_snapshots()
        for base_offset, size in self._positions.items():
            copy_steps.sync_at_length(self._fs, posixpath.join(self._path, f"{base_offset:020d}.log"), size)
        return len(fresh)

    patch.setattr(copy_steps.SyncCopy, "run", run_without)


# With the seed of a history that finds it; if the histories change, later ones do.
PLANTS: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    rename_before_sync: 3,
    directory_order_decides: 32,
    truncation_ignored: 28,
    controller_notified_late: 18,
    marker_without_metadata: 67,
    names_not_synced: 25,
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    first = PLANTS[plant]
    for seed in range(first, first + MAX_SEEDS):
        try:
            run(seed)
        except (AssertionError, OperationError):
            # A log that is broken may also be noticed by a reader.
            return
    pytest.fail(f"{plant.__name__} was not found")
