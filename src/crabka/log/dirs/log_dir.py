"""One log dir: its lock, its checkpoint files, its content, and what is to be removed.

Knows directories and files, not open logs. Every method may wait for the disk and raises OSError.
"""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import ConfigError, CorruptDataError, CrabkaError, StorageError
from crabka.formats import file_names as naming
from crabka.formats.file_names import DirectoryKind, LogDirectoryName, parse_directory_name
from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import (
    heal_offset_checkpoint,
    read_clean_shutdown,
    write_clean_shutdown,
    write_offset_checkpoint,
)
from crabka.log.dirs.meta_properties import heal_meta_properties, read_meta_properties
from crabka.log.recovery.cuts import CutStats

if TYPE_CHECKING:
    from crabka.formats.meta_properties import MetaProperties
    from crabka.ports import File, FileSystem

METADATA_TOPIC = "__cluster_metadata"


CHECKPOINT_NAMES = (
    naming.RECOVERY_POINT_CHECKPOINT,
    naming.REPLICATION_CHECKPOINT,
    naming.LOG_START_CHECKPOINT,
)


class CheckpointOffsets(NamedTuple):
    """What to write into the checkpoint files of a log dir; None leaves a file as it is."""

    recovery_points: dict[TopicPartition, int] | None = None
    high_watermarks: dict[TopicPartition, int] | None = None
    log_starts: dict[TopicPartition, int] | None = None


@dataclass(slots=True)
class LogDirContent:
    """What a scan of a log dir found."""

    clean: bool
    # Broker epoch of the clean stop, -1 if there was none.
    broker_epoch: int
    logs: dict[TopicPartition, str] = field(default_factory=dict)
    # Directories that were waiting for removal when the node stopped.
    doomed: list[str] = field(default_factory=list)
    # Logs that were being moved here.
    futures: dict[TopicPartition, list[str]] = field(default_factory=dict)
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)


class LogDir:
    """A directory named in `log.dirs`."""

    __slots__ = ("_cuts", "_fs", "_gone", "_kept", "_lock", "_turn", "_writing", "_written", "path", "properties")

    def __init__(self, fs: FileSystem, path: str, cuts: CutStats | None = None) -> None:
        self._fs = fs
        self._cuts = cuts or CutStats()
        self.path = path
        self.properties: MetaProperties | None = None
        self._lock: File | None = None
        # Held while checkpoint files are written or repaired.
        self._writing = threading.Lock()
        # Number of the last choice of offsets, and of the choice that each checkpoint file holds.
        self._turn = 0
        self._written: dict[str, int] = {}
        # Deleted logs that checkpoint files may still list -> the last turn that may have listed them.
        self._gone: dict[TopicPartition, int] = {}
        # Entries that each checkpoint file keeps for logs that are not opened.
        self._kept: dict[str, dict[TopicPartition, int]] = {}

    def open(self) -> None:
        """Create the directory if needed and lock it. Raises ConfigError if another process uses it."""
        if not self._fs.exists(self.path):
            self._fs.makedirs(self.path)
            self._fs.fsync_dir(posixpath.dirname(self.path))
        try:
            self._lock = self._fs.lock(f"{self.path}/{naming.LOCK_FILE}")
        except BlockingIOError as error:
            raise ConfigError(f"log dir {self.path} is locked by another process or node") from error
        self.properties, reason = heal_meta_properties(self._fs, self.path)
        self._note_healed(reason)

    @property
    def is_locked(self) -> bool:
        """Whether this process holds the directory."""
        return self._lock is not None

    def require_identity(self) -> None:
        """Check that the path still leads to the directory that was opened. Raises StorageError if it does not.

        Open files of a directory that was removed accept writes, which are lost with them. Single files that are
        missing or damaged do not count: the scrubber restores them.
        """
        try:
            found = read_meta_properties(self._fs, self.path)
        except (CrabkaError, OSError):
            return  # a disk that fails is found by those who write
        if found is None:
            if not self._fs.exists(self._path(naming.LOCK_FILE)):
                raise StorageError(self.path, "the directory was removed, or its disk unmounted, while in use")
        elif self.properties is not None and found.directory_id != self.properties.directory_id:
            raise StorageError(self.path, "another directory took its place while in use")

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def scan(self) -> LogDirContent:
        """Return the content. The mark of a clean stop is removed: it is valid only until the first write."""
        epoch = read_clean_shutdown(self._fs, self._path(naming.CLEAN_SHUTDOWN))
        content = LogDirContent(clean=epoch is not None, broker_epoch=-1 if epoch is None else epoch)
        if epoch is not None:
            self._fs.unlink(self._path(naming.CLEAN_SHUTDOWN))
            self._fs.fsync_dir(self.path)
        content.recovery_points = self._read_checkpoint(naming.RECOVERY_POINT_CHECKPOINT)
        content.high_watermarks = self._read_checkpoint(naming.REPLICATION_CHECKPOINT)
        content.log_starts = self._read_checkpoint(naming.LOG_START_CHECKPOINT)
        for name in self._fs.listdir(self.path):
            parsed = parse_directory_name(name)
            if parsed is not None and parsed.topic_partition.topic != METADATA_TOPIC:
                self._sort_in(content, self._path(name), parsed)
        for offsets in (content.recovery_points, content.high_watermarks, content.log_starts):
            self._gone.update((each, 0) for each in offsets if each not in content.logs)
        return content

    def _sort_in(self, content: LogDirContent, path: str, parsed: LogDirectoryName) -> None:
        if not self._fs.stat(path).is_dir:
            return
        if parsed.kind is DirectoryKind.LOG:
            content.logs[parsed.topic_partition] = path
        elif parsed.kind is DirectoryKind.DELETE:
            content.doomed.append(path)
        elif parsed.kind is DirectoryKind.FUTURE:
            content.futures.setdefault(parsed.topic_partition, []).append(path)

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            offsets, reason = heal_offset_checkpoint(self._fs, self._path(name))
        except CorruptDataError as error:
            # Without it all logs are checked from the start, or are dirty: more work, the same result.
            self._cuts.note_rebuilt(self._path(name), error)
            return {}
        self._note_healed(reason)
        return offsets

    def _note_healed(self, reason: str) -> None:
        if reason:
            self._cuts.note_healed(reason)

    def heal_files(self) -> list[str]:
        """Verify the files of the dir itself, and rewrite damaged ones; return what was wrong.

        For a dir in use. A checkpoint that cannot be read at all is replaced by the next one.
        """
        reasons = []
        with self._writing:
            for name in (*CHECKPOINT_NAMES, naming.CLEANER_CHECKPOINT):
                with contextlib.suppress(CorruptDataError):
                    reasons.append(heal_offset_checkpoint(self._fs, self._path(name))[1])
            try:
                reasons.append(heal_meta_properties(self._fs, self.path)[1])
            except CorruptDataError as error:
                reasons.append(f"{error}. No copy of it is left: restore it before the node stops")
        return [reason for reason in reasons if reason]

    def next_turn(self) -> int:
        """Return the number of a choice of offsets that is made now; a later choice has a higher one."""
        self._turn += 1
        return self._turn

    def write_checkpoints(self, offsets: CheckpointOffsets, turn: int | None = None) -> None:
        """Replace the checkpoint files for which there are offsets, unless they hold a later choice already."""
        turn = self.next_turn() if turn is None else turn
        with self._writing:
            for name, values in zip(CHECKPOINT_NAMES, offsets, strict=True):
                if values is not None and turn > self._written.get(name, 0):
                    write_offset_checkpoint(self._fs, self._path(name), {**self._kept.get(name, {}), **values})
                    self._written[name] = turn

    def read_cleaner_checkpoint(self) -> dict[TopicPartition, int]:
        """Return up to where each log is clean; empty if that is not known."""
        with self._writing:
            return self._read_checkpoint(naming.CLEANER_CHECKPOINT)

    def write_cleaner_checkpoint(self, offsets: dict[TopicPartition, int]) -> None:
        """Note up to where each log is clean."""
        with self._writing:
            write_offset_checkpoint(self._fs, self._path(naming.CLEANER_CHECKPOINT), offsets)

    def keep(self, topic_partitions: Collection[TopicPartition], content: LogDirContent) -> None:
        """Keep the entries of logs that are not opened in the checkpoint files."""
        known = (content.recovery_points, content.high_watermarks, content.log_starts)
        self._kept = {
            name: {each: offset for each, offset in offsets.items() if each in topic_partitions}
            for name, offsets in zip(CHECKPOINT_NAMES, known, strict=True)
        }

    def note_gone(self, topic_partition: TopicPartition) -> None:
        """Remember that checkpoint files may still list a log that is deleted."""
        self._gone[topic_partition] = self._turn

    def may_list(self, topic_partition: TopicPartition) -> bool:
        """Return whether checkpoint files may hold offsets of an earlier log of this name."""
        return topic_partition in self._gone

    def forget_gone(self, turn: int) -> None:
        """Note that all checkpoint files hold this choice of offsets or a later one."""
        self._gone = {each: last for each, last in self._gone.items() if last >= turn}

    def write_clean_shutdown(self, broker_epoch: int) -> None:
        """Leave the mark of a clean stop."""
        write_clean_shutdown(self._fs, self._path(naming.CLEAN_SHUTDOWN), broker_epoch)

    def free_bytes(self) -> int:
        """Return the space left on the disk."""
        return self._fs.disk_usage(self.path).free_bytes

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"
