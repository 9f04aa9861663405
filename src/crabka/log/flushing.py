"""Making a log durable in three steps: choose on the loop, fsync in a thread, note the result on the loop.

Sealed segments are synced with their indexes and the producer snapshot behind them, so that recovery can trust
all below the recovery point. Of the active segment only the batches are: recovery reads it again in any case.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, NamedTuple

from crabka.log.naming import LEADER_EPOCH_CHECKPOINT
from crabka.vfs import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.log.caches import Handle
    from crabka.log.segment import Segment
    from crabka.ports import FileSystem


class FlushPlan(NamedTuple):
    """What must reach the disk before the recovery point may move to `up_to`."""

    fs: FileSystem
    directory: str
    up_to: int
    paths: Sequence[str]
    active: Handle | None = None
    # New content of the leader epoch checkpoint.
    epochs: bytes | None = None
    # The names in the log directory, and its own name, must become durable.
    names: bool = False
    # How often the log had been truncated: a truncation after the choice makes the plan worthless.
    truncations: int = 0
    # Segments whose index files become durable.
    sealed: Sequence[Segment] = ()
    # How often segments had been deleted: with the names, these deletions become durable.
    deletions: int = 0

    def run(self) -> None:
        """Do all fsyncs. May run in a thread; raises OSError."""
        try:
            self._sync_all()
        except FileNotFoundError:
            # A log that was deleted meanwhile has another name and needs no flush.
            if self.fs.exists(self.directory):
                raise

    def _sync_all(self) -> None:
        for path in self.paths:
            self._sync(path)
        if self.active is not None:
            self.active.file.fsync()
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
