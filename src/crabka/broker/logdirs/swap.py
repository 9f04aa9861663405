"""The swap of a source log and its complete copy, file system step by file system step.

    1. the marker is written into the root of the target dir
    2. <target>/<name>.<id>-future  → <target>/<name>
    3. <source>/<name>              → <source>/<name>.<id>-delete
    4. the marker is removed

Every step is durable before the next begins, so a crash leaves at least one log with a final name, and two only while
the marker is there. All methods run in a thread and raise StorageError with the dir that failed. The named places are
where tests end the process.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from crabka.broker.logdirs.disk_errors import blaming
from crabka.broker.logdirs.move_journal import MoveMarker, marker_path, remove_marker, write_marker
from crabka.formats.file_names import DirectoryKind, marked_name

if TYPE_CHECKING:
    import uuid

    from crabka.ids import TopicPartition
    from crabka.ports import Failpoints, FileSystem


class SwapFiles:
    """The directories and the marker of one swap."""

    def __init__(
        self, fs: FileSystem, failpoints: Failpoints, topic_partition: TopicPartition, *, source: str, future: str
    ) -> None:
        """`source` and `future` are the directories of both logs."""
        self._fs = fs
        self._hit = failpoints.hit
        self._topic_partition = topic_partition
        self._source = source
        self._future = future
        self._target_dir = posixpath.dirname(future)
        self._marker: str | None = None

    @property
    def final_path(self) -> str:
        """Where the log will lie."""
        return f"{self._target_dir}/{self._topic_partition}"

    def mark(self, marker: MoveMarker, unique: uuid.UUID) -> None:
        """Write the marker, unless an earlier try did."""
        if self._marker is None:
            path = marker_path(self._target_dir, unique)
            self._hit("move.before_marker")
            with blaming(self._target_dir):
                write_marker(self._fs, path, marker)
            self._marker = path
        self._hit("move.after_marker")

    def rename_future(self) -> None:
        """Give the copy its final name."""
        self._hit("move.before_future_renamed")
        with blaming(self._target_dir):
            self._fs.rename(self._future, self.final_path)
            self._hit("move.after_future_renamed")
            self._fs.fsync_dir(self._target_dir)
        self._hit("move.after_future_synced")

    def rename_back(self) -> None:
        """Take the final name from the copy again: it turned out to be unusable."""
        with blaming(self._target_dir):
            self._fs.rename(self.final_path, self._future)
            self._fs.fsync_dir(self._target_dir)

    def retire_source(self, unique: uuid.UUID) -> str:
        """Take the name from the source; return where it waits for its deletion."""
        source_dir = posixpath.dirname(self._source)
        doomed = f"{source_dir}/{marked_name(self._topic_partition, DirectoryKind.DELETE, unique)}"
        self._hit("move.before_source_renamed")
        with blaming(source_dir):
            self._fs.rename(self._source, doomed)
            self._hit("move.after_source_renamed")
            self._fs.fsync_dir(source_dir)
        self._hit("move.after_source_synced")
        return doomed

    def delete_final(self, unique: uuid.UUID) -> str | None:
        """Take the final name from the copy of a log that is deleted; return where it waits, None if it is not there.

        The deletion of the log may have done so already.
        """
        doomed = f"{self._target_dir}/{marked_name(self._topic_partition, DirectoryKind.DELETE, unique)}"
        with blaming(self._target_dir):
            if not self._fs.exists(self.final_path):
                return None
            self._fs.rename(self.final_path, doomed)
            self._fs.fsync_dir(self._target_dir)
        return doomed

    def unmark(self) -> None:
        """Remove the marker, if there is one."""
        path, self._marker = self._marker, None
        if path is not None:
            self._hit("move.before_marker_removed")
            with blaming(self._target_dir):
                remove_marker(self._fs, path)
            self._hit("move.after_marker_removed")
