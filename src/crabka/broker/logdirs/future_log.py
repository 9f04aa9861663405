"""The future log: the growing copy of a partition log in another log dir (KIP-113).

    <target>/<topic>-<partition>.<unique id>-future      named as Kafka does

It mirrors the files of the live log, segment by segment, with the same names and the same bytes, so that no record is
decoded and nothing in memory changes when the log goes on in the copy. What is to be done next is chosen on the loop
from how the log is now, runs in a thread in bounded steps that end between batches, and counts when it is noted on the
loop, unless the log was cut meanwhile. Segments that retention drops go from the copy as well; one whose end the log
start has passed begins anew. What an earlier run left is compared with the source before it counts.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from crabka.broker.logdirs.copy_steps import CopyBytes, DropSegments, FinishSegment, SyncCopy
from crabka.broker.logdirs.disk_errors import blaming
from crabka.formats.file_names import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    DirectoryKind,
    file_offset,
    marked_name,
)
from crabka.formats.partition_metadata import encode_partition_metadata
from crabka.vfs import write_synced

if TYPE_CHECKING:
    import uuid

    from crabka.log.partition.moving import CopyableSegment
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.ports import FileSystem

# At most so much is copied by one step of a thread.
MAX_STEP_BYTES: Final = 16 * 1024 * 1024


@dataclass(slots=True)
class MirroredSegment:
    """How much of a segment the copy has. All of these are batch boundaries of the source."""

    copied: int = 0
    # Below it the bytes are durable.
    synced: int = 0
    # Below it the file may hold bytes that are not the source's.
    written: int = 0
    # Sealed, with its indexes, durably.
    is_finished: bool = False


class CopyStep(Protocol):
    """Bounded work on the copy. `run` belongs into a thread; the caller passes it to `FutureLog.note`."""

    generation: int

    def run(self) -> int:
        """Do it and return the bytes that were written.

        Raises StorageError with the log dir that failed, SourceChangedError if the step has to be chosen anew.
        """
        ...

    def apply(self, copy: FutureLog) -> None:
        """Note on the loop what was done."""
        ...


class FutureLog:
    """The copy of one log. Methods run on the loop unless they say otherwise."""

    def __init__(self, fs: FileSystem, log: PartitionLog, path: str) -> None:
        self.fs = fs
        self.path = path
        self.mirrored: dict[int, MirroredSegment] = {}
        # Producer snapshots that are the same in both.
        self.snapshots: set[int] = set()
        # The leader epochs that the copy has durably.
        self.epochs: bytes | None = None
        # Files were created or removed since the last sync.
        self.names_dirty = True
        # Behind the last offset that was copied.
        self.end_offset = log.local_log_start_offset
        self.bytes_written = 0
        self._log = log
        self._generation = 0

    @property
    def target_dir(self) -> str:
        """The log dir of the copy."""
        return posixpath.dirname(self.path)

    def open(self) -> None:
        """Create the directory, or look at what an earlier run left there. Runs in a thread. Raises StorageError."""
        with blaming(self.target_dir):
            if not self.fs.exists(self.path):
                self.fs.makedirs(self.path)
            for name in self.fs.listdir(self.path):
                base_offset = file_offset(name)
                if base_offset is not None and name.endswith(LOG_SUFFIX):
                    size = self.fs.stat(f"{self.path}/{name}").size_bytes
                    self.mirrored[base_offset] = MirroredSegment(written=size)
            if self._log.topic_id is not None:
                content = encode_partition_metadata(self._log.topic_id)
                write_synced(self.fs, f"{self.path}/{PARTITION_METADATA}", content)
            self.fs.fsync_dir(self.target_dir)

    # -- choosing ------------------------------------------------------------------------------------------------

    def next_step(self, max_bytes: int = MAX_STEP_BYTES) -> CopyStep | None:
        """Return what to do next, None if the copy has everything."""
        segments = self._log.moving.copyable_segments()
        present = {each.base_offset for each in segments}
        gone = [base_offset for base_offset in self.mirrored if base_offset not in present]
        if gone:
            return DropSegments(self.fs, self.path, gone, generation=self._generation)
        for each in segments:
            mirrored = self.mirrored.get(each.base_offset)
            if mirrored is None:
                mirrored = self.mirrored[each.base_offset] = MirroredSegment()
                self.names_dirty = True
            if mirrored.copied < each.size:
                return self._copy(each, mirrored, max_bytes)
            if each.is_sealed and not mirrored.is_finished:
                return FinishSegment(
                    self.fs, self.path, each, source_dir=self._log.log_dir, generation=self._generation
                )
        self.end_offset = self._log.log_end_offset
        return None

    def _copy(self, source: CopyableSegment, mirrored: MirroredSegment, max_bytes: int) -> CopyStep:
        step = CopyBytes(
            self.fs,
            self.path,
            source,
            source_dir=self._log.log_dir,
            position=mirrored.copied,
            max_bytes=max_bytes,
            foreign_end=mirrored.written,
            generation=self._generation,
        )
        # The source may be cut while a thread writes: then these bytes are not the source's.
        mirrored.written = max(mirrored.written, source.size)
        return step

    def sync_step(self) -> CopyStep:
        """Return what makes durable all that was copied, with the small files and the names."""
        positions = {base: each.copied for base, each in self.mirrored.items() if not each.is_finished}
        return SyncCopy(
            self.fs,
            self.path,
            self._log.moving.small_files(),
            positions=positions,
            known_snapshots=frozenset(self.snapshots),
            known_epochs=self.epochs,
            names_dirty=self.names_dirty,
            source_dir=self._log.log_dir,
            generation=self._generation,
        )

    def note(self, step: CopyStep) -> None:
        """Take over what a step did, unless the log was cut since it was chosen."""
        if step.generation == self._generation:
            step.apply(self)

    def on_truncated(self, base_offset: int, size: int) -> None:
        """Forget what was copied behind the new end of the log."""
        self._generation += 1
        self.snapshots.clear()
        for base, mirrored in self.mirrored.items():
            keep = size if base == base_offset else mirrored.copied if base < base_offset else 0
            if mirrored.copied > keep or base >= base_offset:
                mirrored.copied = min(mirrored.copied, keep)
                mirrored.synced = min(mirrored.synced, keep)
                mirrored.is_finished = False
        self.end_offset = min(self.end_offset, self._log.log_end_offset)

    # -- how far it is -------------------------------------------------------------------------------------------

    @property
    def remaining_bytes(self) -> int:
        """Bytes of the source that the copy does not have durably."""
        mirrored = self.mirrored
        return sum(
            each.size - (found.synced if (found := mirrored.get(each.base_offset)) is not None else 0)
            for each in self._log.moving.copyable_segments()
        )

    @property
    def size_bytes(self) -> int:
        """Bytes that were copied and are still a part of the log."""
        return sum(each.copied for each in self.mirrored.values())

    @property
    def offset_lag(self) -> int:
        """How many offsets the copy is behind the log."""
        return max(self._log.log_end_offset - self.end_offset, 0)

    # -- the end -------------------------------------------------------------------------------------------------

    def discard(self, unique: uuid.UUID) -> str:
        """Give the copy a name that says that it is to be removed, durably; return its path. Runs in a thread.

        Raises StorageError; a copy that is not there is fine.
        """
        doomed = f"{self.target_dir}/{marked_name(self._log.topic_partition, DirectoryKind.DELETE, unique)}"
        with blaming(self.target_dir):
            if self.fs.exists(self.path):
                self.fs.rename(self.path, doomed)
                self.fs.fsync_dir(self.target_dir)
        return doomed
