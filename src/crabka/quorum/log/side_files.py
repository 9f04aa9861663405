"""The side files of the metadata log: leader epochs, producer snapshots, `partition.metadata`.

Kafka's tools read them. All of them follow from the state of the open log, so a damaged one is rewritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from crabka.errors import CorruptDataError
from crabka.formats.checkpoints import decode_epochs
from crabka.formats.file_names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, SNAPSHOT_SUFFIX, offset_name
from crabka.formats.partition_metadata import encode_partition_metadata
from crabka.log.partition.leader_epochs import LeaderEpochCache
from crabka.log.producers.snapshots import encode_snapshot
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.ports import FileSystem

# Kafka's fixed id of the metadata topic.
METADATA_TOPIC_ID = UUID(int=1)


class SideFiles:
    """The side files of one metadata directory. Blocks."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self._epochs_path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"

    def read_epochs(self) -> list[tuple[int, int]] | None:
        """Return the checkpointed epochs; None if the file is missing or damaged: the batches contain them as well."""
        data = self._content(self._epochs_path)
        try:
            return None if data is None else LeaderEpochCache(decode_epochs(data, self._epochs_path)).entries
        except CorruptDataError:
            return None

    def write_epochs(self, epochs: LeaderEpochCache) -> None:
        """Replace the checkpoint of the leader epochs, durably."""
        write_atomic(self._fs, self._epochs_path, epochs.encode())
        epochs.note_saved(epochs.version)

    def write_producer_snapshot(self, offset: int) -> None:
        """Write a snapshot without producers, as Kafka does where a segment begins or the log ends."""
        write_atomic(self._fs, f"{self._directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}", encode_snapshot([]))

    def mend_partition_metadata(self) -> str:
        """Rewrite `partition.metadata` unless it is valid; return its fault if it existed."""
        path, wanted = f"{self._directory}/{PARTITION_METADATA}", encode_partition_metadata(METADATA_TOPIC_ID)
        found = self._content(path)
        if found != wanted:
            write_atomic(self._fs, path, wanted)
        return "" if found in (None, wanted) else f"{path} did not hold the id of the metadata topic"

    def mend(self, epochs: LeaderEpochCache) -> Iterator[str]:
        """Rewrite damaged files; yield each fault after its repair. Raises OSError."""
        if not epochs.dirty:
            found = self._content(self._epochs_path)
            if found != epochs.encode() and (found is not None or epochs.entries):
                self.write_epochs(epochs)
                yield f"{self._epochs_path} did not hold the {len(epochs.entries)} known epochs"
        yield from filter(None, [self.mend_partition_metadata()])
        empty = encode_snapshot([])
        for name in sorted(self._fs.listdir(self._directory)):
            path = f"{self._directory}/{name}"
            if name.endswith(SNAPSHOT_SUFFIX) and self._content(path) not in (None, empty):
                write_atomic(self._fs, path, empty)
                yield f"{path} is not a snapshot without producers"

    def _content(self, path: str) -> bytes | None:
        try:
            return read_file(self._fs, path)
        except FileNotFoundError:
            return None
