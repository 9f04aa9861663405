"""Loads a node's metadata: the newest valid snapshot, then the log after it.

Reads directories of Kafka and of Crabka, and changes nothing. A damaged snapshot is skipped and reported; an older one
is sufficient if the log continues it, which the caller verifies. Unknown record types and versions raise
MetadataVersionError: a node must not run on metadata that it cannot read completely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.formats.file_names import LOG_SUFFIX, offset_name
from crabka.metadata.records import decode_record
from crabka.metadata.replay import MetadataReplay
from crabka.quorum.log.survey import StoredBatch, read_segment, segment_bases
from crabka.quorum.log.voters import VoterNode, voters_from_record
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, list_snapshots, read_snapshot
from crabka.quorum.snapshots.set_aside import DamagedSnapshot, damaged_snapshot
from crabka.records.control import KRaftVersionRecord, VotersRecord, parse_control_record
from crabka.records.header import crc_valid
from crabka.records.record import decode_records

if TYPE_CHECKING:
    from crabka.ports import FileSystem


@dataclass(slots=True)
class LoadedMetadata:
    """The content of a metadata directory, during and after reading."""

    replay: MetadataReplay = field(default_factory=MetadataReplay)
    snapshot: SnapshotId | None = None
    kraft_version: int = 0
    voters: tuple[VoterNode, ...] = ()
    last_timestamp: int = 0
    # Size of the log after the snapshot: it counts towards the next one.
    bytes_behind_snapshot: int = 0
    # Damaged snapshots that are newer than the loaded one, newest first.
    damaged: tuple[DamagedSnapshot, ...] = ()

    def replay_batch(self, batch: StoredBatch, start_offset: int = 0) -> None:
        """Replay the next batch of the log; records below `start_offset` are in the snapshot."""
        header = batch.header
        epoch = header.partition_leader_epoch
        for record in decode_records(batch.data, header):
            if record.offset < start_offset:
                continue
            if header.is_control:
                self._control(parse_control_record(record))
                self.replay.skip_to(record.offset, epoch)
            else:
                self.replay.replay(decode_record(record.value or b""), record.offset, epoch)
        self.last_timestamp = header.max_timestamp
        self.bytes_behind_snapshot += header.size_in_bytes

    def _control(self, message: object) -> None:
        if isinstance(message, VotersRecord):
            self.voters = voters_from_record(message)
        elif isinstance(message, KRaftVersionRecord):
            self.kraft_version = message.k_raft_version


def load_snapshot(fs: FileSystem, directory: str) -> LoadedMetadata:
    """Return the newest valid snapshot of a metadata directory, if any, and the damaged newer ones."""
    damaged: list[DamagedSnapshot] = []
    for snapshot in reversed(list_snapshots(fs, directory)):
        path = f"{directory}/{snapshot.file_name}"
        try:
            loaded = metadata_of(snapshot, read_snapshot(fs, path, snapshot.epoch))
        except CorruptDataError as error:
            damaged.append(damaged_snapshot(fs, path, snapshot, error.message))
        else:
            break
    else:
        loaded = LoadedMetadata()
    loaded.damaged = tuple(damaged)
    return loaded


def metadata_of(snapshot: SnapshotId, content: SnapshotContent) -> LoadedMetadata:
    """Return the metadata in a snapshot. Raises CorruptDataError if its records contradict each other."""
    loaded = LoadedMetadata(
        snapshot=snapshot,
        kraft_version=content.kraft_version,
        voters=content.voters,
        last_timestamp=content.last_timestamp,
    )
    for record in content.records:
        loaded.replay.replay(record, snapshot.end_offset - 1, snapshot.epoch)
    loaded.replay.skip_to(snapshot.end_offset - 1, snapshot.epoch)
    return loaded


def load_read_only(fs: FileSystem, directory: str) -> LoadedMetadata:
    """Read a metadata directory without changing it; batches from a torn one on are left out.

    For directories of another node: the voters are those of the log, not of this node's config.
    Raises CorruptDataError if offsets are missing between the newest valid snapshot and the log.
    """
    loaded = load_snapshot(fs, directory)
    start_offset = 0 if loaded.snapshot is None else loaded.snapshot.end_offset
    for batch in _intact_batches(fs, directory, start_offset):
        loaded.replay_batch(batch, start_offset)
    loaded.replay.publish()
    return loaded


def _intact_batches(fs: FileSystem, directory: str, start_offset: int) -> Iterator[StoredBatch]:
    """Yield the batches that follow `start_offset` without a gap, up to a damaged one."""
    expected: int | None = None
    for base in segment_bases(fs, directory):
        path = f"{directory}/{offset_name(base)}{LOG_SUFFIX}"
        for batch in read_segment(fs, path, fs.stat(path).size_bytes):
            header = batch.header
            if not crc_valid(batch.data, 0, header):
                return
            if header.last_offset < start_offset:
                continue
            if expected is None and header.base_offset > start_offset:
                reason = (
                    f"starts at offset {header.base_offset}, and no valid file holds the offsets from {start_offset}"
                )
                raise CorruptDataError(path, reason)
            if expected not in (None, header.base_offset):
                return
            expected = header.next_offset
            yield batch
