"""What becomes, at start, of moves that a stop or a crash interrupted.

Runs before any log is opened, on what a scan of all readable dirs found. Of two logs of one name one must go (Kafka
would not start on them): the marker of the swap says which, unless the metadata place the replica in the other one.
That is so when the target was lost in the middle of a swap: its marker was out of reach while the replica went on in
the source, but not before the controller had committed that. Without a marker the metadata decide, and a log that
loses is set aside, not removed. Never does the order of the directories decide.

A log that the metadata place in a dir which cannot be read now is left alone: it may be what is left of a source whose
disk failed before the log lost its name, while the replica went on in the target.

A future log without a log beside it is no replica. If the metadata place the replica there, and all dirs can be read,
it is the best that is left and becomes the log (Kafka's recoverAbandonedFutureLogs); while a dir is missing the replica
is taken to be in that.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from crabka.broker.logdirs.disk_errors import blaming
from crabka.broker.logdirs.move_journal import FoundMarker, find_markers, remove_marker, sweep_markers
from crabka.formats.file_names import LOG_SUFFIX, DirectoryKind, file_offset, marked_name
from crabka.ids import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED

if TYPE_CHECKING:
    from crabka.ids import TopicPartition
    from crabka.log.dirs.log_dir import LogDirContent
    from crabka.ports import FileSystem

logger = logging.getLogger(__name__)

# Says nothing of where a replica is.
_NO_DIRECTORY: Final = (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING, DIRECTORY_LOST)
Contents = Mapping[str, "LogDirContent"]


@dataclass(slots=True, kw_only=True)
class MoveResolution:
    """Settles interrupted moves. `settle` runs in a thread and may be called again without a dir that failed."""

    fs: FileSystem
    # The id of a log dir, None if it has none.
    directory_id: Callable[[str], uuid.UUID | None]
    # Where the metadata place the replica of this broker, None if they know nothing of it.
    assigned: Callable[[TopicPartition], uuid.UUID | None]
    new_uuid: Callable[[], uuid.UUID]
    # How many dirs the node has, readable or not.
    dir_count: int
    # Logs of which there is only an unfinished copy at hand.
    withheld: set[TopicPartition] = field(default_factory=set)

    def settle(self, contents: Contents) -> None:
        """Leave one log of each name, on disk and in `contents`. Raises StorageError with the dir that failed."""
        markers = {path: self._markers(path) for path in contents}
        targets = {each.marker.topic_partition: path for path, found in markers.items() for each in found}
        for topic_partition, paths in _copies(contents).items():
            if len(paths) > 1:
                self._choose(contents, topic_partition, paths, targets.get(topic_partition))
        self.withheld.clear()
        self._withhold_stale(contents)
        self._look_after_futures(contents)
        for path, found in markers.items():
            with blaming(path):
                for each in found:
                    remove_marker(self.fs, each.path)
                sweep_markers(self.fs, path)

    def _markers(self, path: str) -> list[FoundMarker]:
        with blaming(path):
            return find_markers(self.fs, path)

    def _choose(
        self, contents: Contents, topic_partition: TopicPartition, paths: list[str], target: str | None
    ) -> None:
        placed = next((path for path in paths if self._is_assigned(topic_partition, path)), None)
        is_marked = target in paths
        winner = (
            placed
            or (target if target is not None and is_marked else None)
            or self._longest(contents, paths, topic_partition)
        )
        for path in paths:
            if path != winner:
                # A copy that the marker names has nothing that the other one lacks.
                kind = DirectoryKind.DELETE if is_marked else DirectoryKind.STRAY
                self._set_aside(contents[path], path, topic_partition, kind)
        logger.warning("%s lay in %s: the one in %s counts", topic_partition, " and ".join(paths), winner)

    def _is_assigned(self, topic_partition: TopicPartition, path: str) -> bool:
        directory = self.directory_id(path)
        return directory is not None and directory == self.assigned(topic_partition)

    def _longest(self, contents: Contents, paths: list[str], topic_partition: TopicPartition) -> str:
        """Return the dir with the log that reaches furthest, the only difference; nothing is removed."""

        def reach(path: str) -> tuple[int, int, str]:
            return *self._reach(path, contents[path].logs[topic_partition]), str(self.directory_id(path))

        return max(paths, key=reach)

    def _reach(self, path: str, directory: str) -> tuple[int, int]:
        """Return the offset and the size of a log's last segment."""
        with blaming(path):
            sizes = {
                offset: self.fs.stat(f"{directory}/{name}").size_bytes
                for name in self.fs.listdir(directory)
                if name.endswith(LOG_SUFFIX) and (offset := file_offset(name)) is not None
            }
        last = max(sizes, default=-1)
        return last, sizes.get(last, 0)

    def _set_aside(
        self, content: LogDirContent, path: str, topic_partition: TopicPartition, kind: DirectoryKind
    ) -> None:
        aside = f"{path}/{marked_name(topic_partition, kind, self.new_uuid())}"
        with blaming(path):
            self.fs.rename(content.logs[topic_partition], aside)
            self.fs.fsync_dir(path)
        del content.logs[topic_partition]
        if kind is DirectoryKind.DELETE:
            content.doomed.append(aside)

    def _withhold_stale(self, contents: Contents) -> None:
        """Leave logs alone that the metadata place in a dir which cannot be read now.

        The replica may have gone on there, if the disk of this one failed before the log lost its name.
        """
        if len(contents) == self.dir_count:
            return
        readable = {self.directory_id(path) for path in contents}
        for topic_partition, paths in _copies(contents).items():
            assigned = self.assigned(topic_partition)
            if assigned is not None and assigned not in _NO_DIRECTORY and assigned not in readable:
                self.withheld.add(topic_partition)
                for path in paths:
                    del contents[path].logs[topic_partition]

    def _look_after_futures(self, contents: Contents) -> None:
        hosted = _copies(contents)
        for path, content in contents.items():
            for topic_partition, futures in list(content.futures.items()):
                if topic_partition in hosted or not self._is_assigned(topic_partition, path):
                    continue
                if len(contents) < self.dir_count:
                    self.withheld.add(topic_partition)
                else:
                    self._promote(content, path, topic_partition, futures)

    def _promote(self, content: LogDirContent, path: str, topic_partition: TopicPartition, futures: list[str]) -> None:
        future = max(futures, key=lambda each: self._reach(path, each))
        futures.remove(future)
        logger.warning("%s is nowhere but in %s, which becomes its log", topic_partition, future)
        final = f"{path}/{topic_partition}"
        with blaming(path):
            self.fs.rename(future, final)
            self.fs.fsync_dir(path)
        content.logs[topic_partition] = final
        # No checkpoint says how much of it is durable.
        content.recovery_points.pop(topic_partition, None)
        content.clean = False


def _copies(contents: Contents) -> dict[TopicPartition, list[str]]:
    copies: dict[TopicPartition, list[str]] = {}
    for path, content in contents.items():
        for topic_partition in content.logs:
            copies.setdefault(topic_partition, []).append(path)
    return copies
