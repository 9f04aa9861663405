"""Read a node's metadata back: the newest snapshot, then the log behind it.

Works on directories written by Kafka as well as by us, and changes nothing except that `MetadataLog.open` cuts a torn
tail. Unknown record types and versions end in MetadataVersionError: a node must not run on metadata it half knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabka.log.naming import LOG_SUFFIX, offset_name
from crabka.metadata.records import decode_record
from crabka.metadata.replay import MetadataReplay
from crabka.quorum.log_survey import StoredBatch, read_segment, segment_bases
from crabka.quorum.snapshots import SnapshotId, list_snapshots, read_snapshot
from crabka.quorum.voters import VoterNode, voters_from_record
from crabka.records.control import KRaftVersionRecord, VotersRecord, parse_control_record
from crabka.records.header import crc_valid
from crabka.records.record import decode_records

if TYPE_CHECKING:
    from crabka.ports import FileSystem


@dataclass(slots=True)
class LoadedMetadata:
    """What a metadata directory says, while it is being read and afterwards."""

    replay: MetadataReplay = field(default_factory=MetadataReplay)
    snapshot: SnapshotId | None = None
    kraft_version: int = 0
    voters: tuple[VoterNode, ...] = ()
    last_timestamp: int = 0
    # Size of the log behind the snapshot: it counts towards the next one.
    bytes_behind_snapshot: int = 0

    def replay_batch(self, batch: StoredBatch, start_offset: int = 0) -> None:
        """Take the next batch of the log; records below `start_offset` are in the snapshot already."""
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
    """Read the newest snapshot of a metadata directory, if there is one."""
    snapshots = list_snapshots(fs, directory)
    if not snapshots:
        return LoadedMetadata()
    newest = snapshots[-1]
    content = read_snapshot(fs, f"{directory}/{newest.file_name}")
    loaded = LoadedMetadata(
        snapshot=newest,
        kraft_version=content.kraft_version,
        voters=content.voters,
        last_timestamp=content.last_timestamp,
    )
    for record in content.records:
        loaded.replay.replay(record, newest.end_offset - 1, newest.epoch)
    loaded.replay.skip_to(newest.end_offset - 1, newest.epoch)
    return loaded


def load_read_only(fs: FileSystem, directory: str) -> LoadedMetadata:
    """Read a metadata directory without changing a byte of it; batches from a torn one on are left out.

    For directories that another node owns: the voters are as the log states them, not as this node would have them.
    """
    loaded = load_snapshot(fs, directory)
    start_offset = 0 if loaded.snapshot is None else loaded.snapshot.end_offset
    for batch in _intact_batches(fs, directory):
        if batch.header.last_offset >= start_offset:
            loaded.replay_batch(batch, start_offset)
    loaded.replay.publish()
    return loaded


def _intact_batches(fs: FileSystem, directory: str) -> Iterator[StoredBatch]:
    for base in segment_bases(fs, directory):
        path = f"{directory}/{offset_name(base)}{LOG_SUFFIX}"
        for batch in read_segment(fs, path, fs.stat(path).size_bytes):
            if not crc_valid(batch.data, 0, batch.header):
                return
            yield batch
