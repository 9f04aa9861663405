"""Removes the directories of deleted logs: renamed at once or in threads, then deleted after `file.delete.delay.ms`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from crabka.errors import StorageError
from crabka.formats.file_names import DirectoryKind, marked_name
from crabka.log.dirs.deletions import is_disk_failure
from crabka.runtime.turns import in_turns

if TYPE_CHECKING:
    from crabka.ids import TopicPartition
    from crabka.log.dirs.deletions import Deletions
    from crabka.log.dirs.log_dirs import LogDirs
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import FileSystem, Runtime

logger = logging.getLogger(__name__)


class LogRemoval:
    """The deleted logs of a node. Methods run on the loop."""

    def __init__(
        self, runtime: Runtime, dirs: LogDirs, deletions: Deletions, on_dir_failure: Callable[[str, Exception], None]
    ) -> None:
        self._runtime = runtime
        self._dirs = dirs
        self._deletions = deletions
        self._on_dir_failure = on_dir_failure
        # Logs that are deleted, but whose directories still have their names.
        self._leaving: dict[TopicPartition, PartitionLog] = {}

    def rename(self, log: PartitionLog) -> None:
        """Rename a deleted log now, waiting for the disk."""
        try:
            log.moving.delete(self._runtime.new_uuid(), self._runtime.clock.now_ms())
        except StorageError as error:
            self._on_dir_failure(error.log_dir, error)

    def rename_later(self, log: PartitionLog) -> None:
        """Rename a deleted log with the next `finish_renames`.

        A crash before that leaves a directory that the next start sets aside, because the metadata does not have it.
        """
        # It is not flushed any more.
        log.state.is_open = False
        self._leaving[log.topic_partition] = log

    def free_name(self, topic_partition: TopicPartition) -> None:
        """Rename a deleted log of this name now, if there is one: a new log needs the name."""
        log = self._leaving.pop(topic_partition, None)
        if log is not None:
            self.rename(log)

    def pending_renames(self) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Return `finish_renames` if there is something to rename, else None."""
        return self.finish_renames if self._leaving else None

    async def finish_renames(self) -> None:
        """Rename all deleted logs in threads, with one sync per dir."""
        leaving, self._leaving = self._leaving, {}
        by_dir: dict[str, list[tuple[PartitionLog, str]]] = {}
        for topic_partition, log in leaving.items():
            name = marked_name(topic_partition, DirectoryKind.DELETE, self._runtime.new_uuid())
            by_dir.setdefault(log.log_dir, []).append((log, f"{log.log_dir}/{name}"))
        for path, renames in by_dir.items():
            try:
                await self._runtime.threads.submit(_rename_all, self._runtime.fs, path, renames)
            except OSError as error:
                self._on_dir_failure(path, error)
            else:
                await self._finish(renames)

    async def _finish(self, renames: list[tuple[PartitionLog, str]]) -> None:
        now_ms = self._runtime.clock.now_ms()
        async for log, target in in_turns(renames):
            log.moving.finish_delete(target, now_ms)

    def delete_due(self, now_ms: int) -> asyncio.Future[list[Any]] | None:
        """Delete in threads what is due; returns a future that does not fail, None if nothing is due.

        Files in a dir that failed stay until the node starts again.
        """
        by_dir: dict[str, list[str]] = {}
        for path in self._deletions.take_due(now_ms):
            owner = self._dirs.owner_of(path)
            if owner is not None:
                by_dir.setdefault(owner, []).append(path)
        if not by_dir:
            return None
        removals = []
        for owner, paths in by_dir.items():
            removal = self._runtime.threads.submit(self._deletions.remove, paths)
            removal.add_done_callback(partial(self._on_deleted, owner))
            removals.append(removal)
        return asyncio.gather(*removals, return_exceptions=True)

    def _on_deleted(self, owner: str, future: asyncio.Future[list[OSError]]) -> None:
        for error in () if future.cancelled() else future.result():
            if is_disk_failure(error):
                self._on_dir_failure(owner, error)
            else:
                logger.warning("cannot remove deleted files: %s", error)


def _rename_all(fs: FileSystem, directory: str, renames: list[tuple[PartitionLog, str]]) -> None:
    """Rename directories in one log dir, durably. Runs in a thread."""
    for log, target in renames:
        log.moving.begin_delete(target)
    fs.fsync_dir(directory)
