"""Decides when to write snapshots, and prunes old ones and the log.

A snapshot is due after so many bytes of records or so much time (KIP-630). Old snapshots and the segments below the
oldest kept one are removed by size and age, never the newest snapshot: log and snapshots together are always complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import CorruptDataError, require
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voters import VoterSet
from crabka.metadata.image import MetadataImage
from crabka.quorum.snapshots.files import (
    SnapshotContent,
    SnapshotId,
    list_snapshots,
    read_snapshot_head,
    write_snapshot,
)

if TYPE_CHECKING:
    from crabka.ports import Runtime
    from crabka.quorum.settings import MetadataLogSettings
    from crabka.quorum.storage import MetadataStorage

# After a snapshot that could not be written, for example on a full disk; doubled up to the largest.
FIRST_RETRY_MS = 1_000
MAX_RETRY_MS = 60_000
logger = logging.getLogger(__name__)


class KeptSnapshot(NamedTuple):
    """A snapshot with its size and age for retention."""

    snapshot_id: SnapshotId
    size_bytes: int
    timestamp_ms: int


class CommittedMetadata(NamedTuple):
    """The source of a snapshot's content: the committed image, while more may have been replayed."""

    image: Callable[[], MetadataImage]
    voters_at: Callable[[OffsetAndEpoch], tuple[VoterSet, int]]


class SnapshotKeeper:
    """Writes snapshots of a quorum's image in a thread, one at a time, and prunes older data."""

    def __init__(
        self,
        runtime: Runtime,
        storage: MetadataStorage,
        log_in_use: asyncio.Lock,
        *,
        source: CommittedMetadata,
        on_change: Callable[[SnapshotId | None], None] | None = None,
    ) -> None:
        """`on_change` is called after pruning."""
        self._runtime = runtime
        self._storage = storage
        self._source = source
        self._on_change = on_change or (lambda _pruned: None)
        # Held while the files of the log are changed.
        self._log_in_use = log_in_use
        self._settings = storage.settings
        self._task: asyncio.Task[None] | None = None
        # Two snapshots of one image would share a file while they are written.
        self._writing = asyncio.Lock()
        self._last_ms = runtime.clock.monotonic_ms()
        # Consecutive failures to write a snapshot, and the earliest time of the next try.
        self._failures = 0
        self._retry_ms = 0

    def maybe_start(self) -> None:
        """Start a snapshot if one is due and none is being written."""
        if self._task is not None and not self._task.done():
            return
        if self._is_due():
            self._task = asyncio.create_task(self._write_logged(), name="metadata-snapshot")

    async def write_now(self) -> None:
        """Write a snapshot of the current image unless the newest one covers it. Raises OSError."""
        if self._task is not None and not self._task.done():
            await self._task
        await self._write()

    async def close(self) -> None:
        """Wait for a snapshot that is being written."""
        if self._task is not None:
            await self._task

    def _is_due(self) -> bool:
        loaded = self._storage.loaded
        if self._runtime.clock.monotonic_ms() < self._retry_ms:
            return False
        if loaded.bytes_behind_snapshot >= self._settings.max_record_bytes_between_snapshots:
            return True
        interval_ms = self._settings.max_snapshot_interval_ms
        waited_ms = self._runtime.clock.monotonic_ms() - self._last_ms
        return 0 < interval_ms <= waited_ms and loaded.bytes_behind_snapshot > 0

    async def _write_logged(self) -> None:
        try:
            await self._write()
        except Exception:
            # The log is still complete: only another try is needed.
            wait_ms = min(FIRST_RETRY_MS << self._failures, MAX_RETRY_MS)
            self._failures = min(self._failures + 1, MAX_RETRY_MS.bit_length())
            self._retry_ms = self._runtime.clock.monotonic_ms() + wait_ms
            logger.exception("Cannot write a snapshot of the metadata; retrying in %d ms", wait_ms)

    @property
    def image_offset(self) -> int:
        """The last offset that the committed image covers, -1 if it is empty."""
        return self._source.image().offset

    async def heal(self, cover: int | None, damaged: Collection[SnapshotId]) -> SnapshotId | None:
        """Write a snapshot if damage needs one, then drop damaged files that it covers; return the covering snapshot.

        `cover` is the end of damaged segments, None without any. Does nothing and returns None while the image does not
        reach that far. Raises OSError.
        """
        if self._task is not None and not self._task.done():
            await self._task
        image_end = self.image_offset + 1
        if image_end <= 0 or image_end < (cover or 0):
            return None
        storage = self._storage
        there = await self._runtime.threads.submit(list_snapshots, storage.fs, storage.directory)
        if not there or there[-1] in damaged or there[-1].end_offset < (cover or 0):
            await self._write(replace=True)
        async with self._log_in_use:
            oldest, newest = await self._runtime.threads.submit(self._drop_blocking, cover, damaged)
            self._on_change(oldest)
        return newest

    def _drop_blocking(self, cover: int | None, damaged: Collection[SnapshotId]) -> tuple[SnapshotId, SnapshotId]:
        """Return the oldest and the newest remaining snapshot."""
        storage = self._storage
        *older, newest = list_snapshots(storage.fs, storage.directory)
        require(newest.end_offset >= (cover or 0), f"snapshot {newest.file_name} does not cover offset {cover}")
        kept = [each for each in older if cover is None and each not in damaged]
        # As in pruning, snapshots go first.
        for snapshot_id in set(older) - set(kept):
            storage.fs.unlink(f"{storage.directory}/{snapshot_id.file_name}")
        if cover is not None:
            storage.log.delete_before(newest.end_offset)
        storage.fs.fsync_dir(storage.directory)
        return [*kept, newest][0], newest

    async def _write(self, *, replace: bool = False) -> None:
        """Write a snapshot of the image unless there is one; `replace` rewrites it."""
        async with self._writing:
            await self._write_image(replace=replace)

    async def _write_image(self, *, replace: bool) -> None:
        loaded = self._storage.loaded
        image = self._source.image()
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        is_there = loaded.snapshot is not None and snapshot_id <= loaded.snapshot
        if image.offset < 0 or (is_there and not (replace and snapshot_id == loaded.snapshot)):
            return
        self._last_ms = self._runtime.clock.monotonic_ms()
        bytes_covered = loaded.bytes_behind_snapshot
        voters, kraft_version = self._source.voters_at(OffsetAndEpoch(*snapshot_id))
        head = SnapshotContent((), loaded.last_timestamp, kraft_version, voters.nodes)
        now_ms = self._runtime.clock.now_ms()
        await self._runtime.threads.submit(self._write_blocking, image, head, snapshot_id, now_ms)
        loaded.snapshot = snapshot_id
        loaded.bytes_behind_snapshot -= bytes_covered
        self._failures = self._retry_ms = 0
        logger.info("Wrote metadata snapshot %s", snapshot_id.file_name)
        self._on_change(None)
        await self._prune(now_ms)

    def _write_blocking(
        self, image: MetadataImage, head: SnapshotContent, snapshot_id: SnapshotId, now_ms: int
    ) -> None:
        content = SnapshotContent(image.to_records(), head.last_timestamp, head.kraft_version, head.voters)
        path = f"{self._storage.directory}/{snapshot_id.file_name}"
        write_snapshot(self._storage.fs, path, content, epoch=snapshot_id.epoch, now_ms=now_ms)

    async def _prune(self, now_ms: int) -> None:
        async with self._log_in_use:
            pruned = await self._runtime.threads.submit(self._prune_blocking, now_ms)
            if pruned is not None:
                self._on_change(pruned)

    def _prune_blocking(self, now_ms: int) -> SnapshotId | None:
        """Return the oldest remaining snapshot, None if none was removed."""
        storage = self._storage
        kept = [self._kept(snapshot_id) for snapshot_id in list_snapshots(storage.fs, storage.directory)]
        doomed = snapshots_to_delete(kept, storage.log.size_bytes, self._settings, now_ms=now_ms)
        if not doomed:
            return None
        # Snapshots are removed first: the newest one stays and covers the removed part of the log.
        for snapshot_id in doomed:
            storage.fs.unlink(f"{storage.directory}/{snapshot_id.file_name}")
        oldest = kept[len(doomed)].snapshot_id
        storage.log.delete_before(oldest.end_offset)
        return oldest

    def _kept(self, snapshot_id: SnapshotId) -> KeptSnapshot:
        path = f"{self._storage.directory}/{snapshot_id.file_name}"
        fs = self._storage.fs
        try:
            timestamp_ms = read_snapshot_head(fs, path).timestamp_ms
        except CorruptDataError:
            # A damaged one is not kept for its age; the check of the files replaces it if it is the newest.
            timestamp_ms = 0
        return KeptSnapshot(snapshot_id, fs.stat(path).size_bytes, timestamp_ms)


def snapshots_to_delete(
    kept: Sequence[KeptSnapshot], log_bytes: int, settings: MetadataLogSettings, *, now_ms: int
) -> list[SnapshotId]:
    """Return the snapshots to delete by size or age, oldest first; the newest always stays."""
    total = log_bytes + sum(item.size_bytes for item in kept)
    doomed: list[SnapshotId] = []
    for item in kept[:-1]:
        too_large = 0 <= settings.retention_bytes < total
        too_old = 0 <= settings.retention_ms < now_ms - item.timestamp_ms
        if not too_large and not too_old:
            break
        doomed.append(item.snapshot_id)
        total -= item.size_bytes
    return doomed
