"""Making a log durable in three steps: choose on the loop, fsync in a thread, note the result on the loop.

Sealed segments are synced with their indexes and the producer snapshot after them, so that recovery can trust
all below the recovery point. Of the active segment only the batches are: recovery reads it again in any case.

A log has one plan at a time. Two would race: the one that is chosen first may be the last to write the leader epochs,
and a plan that ends early would raise the recovery point above files that only the other one syncs.
"""

from __future__ import annotations

import posixpath
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabka.formats.file_names import LEADER_EPOCH_CHECKPOINT
from crabka.vfs import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.log.segment.caches import Handle
    from crabka.log.segment.segment import Segment
    from crabka.ports import FileSystem


@dataclass(slots=True, eq=False, kw_only=True)
class FlushPlan:
    """What must reach the disk before the recovery point may move to `up_to`. Only then are the marks below cleared."""

    fs: FileSystem
    directory: str
    up_to: int
    paths: Sequence[str] = ()
    active: Handle | None = None
    # New content of the leader epoch checkpoint, and its version.
    epochs: bytes | None = None
    epochs_version: int = 0
    # The names in the log directory, and its own name, must become durable.
    names: bool = False
    # How often names had changed.
    name_changes: int = 0
    # How often the log had been truncated: a truncation after the choice makes the plan worthless.
    truncations: int = 0
    # Segments whose index files become durable.
    sealed: Sequence[Segment] = ()
    # How often segments had been deleted: with the names, these deletions become durable.
    deletions: int = 0
    # Held while the plan runs.
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_done: bool = False
    _error: Exception | None = None
    _is_abandoned: bool = False

    def run(self) -> None:
        """Do all fsyncs, once: another caller waits for the end and gets the same outcome.

        May run in any thread; raises OSError.
        """
        with self._lock:
            if not self._is_done:
                try:
                    self._sync_all()
                except FileNotFoundError as error:
                    # A log that was deleted meanwhile has another name and needs no flush.
                    self._error = error if self.fs.exists(self.directory) else None
                except Exception as error:  # noqa: BLE001 - every caller gets it
                    self._error = error
                self._is_done = True
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Write nothing from now on: the directory is no longer this log's. Does not wait for what is under way."""
        self._is_abandoned = True

    def _sync_all(self) -> None:
        for path in self.paths:
            self._sync(path)
        if self.active is not None:
            self.active.file.fsync()
        if self._is_abandoned:
            return
        if self.epochs is not None:
            write_atomic(self.fs, f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}", self.epochs)
        if self.names:
            self.fs.fsync_dir(self.directory)
            self.fs.fsync_dir(posixpath.dirname(self.directory))

    def _sync(self, path: str) -> None:
        try:
            file = self.fs.open(path, read_only=True)
        except FileNotFoundError:
            # Retention or truncation was faster, or the segment has no file of this kind.
            return
        try:
            file.fsync()
        finally:
            file.close()
