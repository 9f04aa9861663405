"""Snapshots of the metadata log: `<end offset>-<epoch>.checkpoint` (KIP-630).

A snapshot is a file of batches that numbers its own offsets from 0: a control batch with SnapshotHeader (and, from
kraft.version 1 on, KRaftVersion and the voters), metadata records, a control batch with SnapshotFooter. Only its
name says what it covers. A file is complete or absent: it is written under another name and renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.static.primitive import i16, i64

from crabka.errors import CorruptDataError
from crabka.metadata.records import decode_record, encode_record
from crabka.quorum.log.voters import VoterNode, kraft_version_record, voters_from_record, voters_to_record
from crabka.records.builder import build_batch
from crabka.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    build_control_batch,
    parse_control_record,
)
from crabka.records.errors import CorruptBatchError
from crabka.records.header import MAGIC_V2, BatchHeader, crc_valid, iter_headers
from crabka.records.record import Record, decode_records
from crabka.vfs import read_file

if TYPE_CHECKING:
    from crabka.ports import FileSystem

SUFFIX = ".checkpoint"
PARTIAL_SUFFIX = ".checkpoint.part"
BOOTSTRAP_FILE = "bootstrap.checkpoint"
# Header and footer.
_MIN_BATCHES = 2
_NAME = re.compile(r"^(\d{20})-(\d{10})\.checkpoint$")
# Kafka's readers accept batches up to 8 MiB; ours stay well below.
_MAX_BATCH_BYTES = 1 << 20
# The first batch holds the header and the voters: room for hundreds of them.
_HEAD_BYTES = 64 << 10


class SnapshotId(NamedTuple):
    """The end of a snapshot: it covers everything below `end_offset`, whose last record is of `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """Name of the snapshot's file."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """The content of a snapshot."""

    records: Sequence[Any]
    last_timestamp: int = 0
    # 0 and no voters where the quorum is static and defined by the nodes' configs.
    kraft_version: int = 0
    voters: tuple[VoterNode, ...] = ()


def list_snapshots(fs: FileSystem, directory: str) -> list[SnapshotId]:
    """Return the complete snapshots of a metadata directory, oldest first."""
    matches = [_NAME.match(name) for name in fs.listdir(directory)]
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in matches if match)


def remove_partial_snapshots(fs: FileSystem, directory: str) -> None:
    """Remove partial files of interrupted writers."""
    for name in fs.listdir(directory):
        if name.endswith(PARTIAL_SUFFIX):
            fs.unlink(f"{directory}/{name}")


def write_snapshot(fs: FileSystem, path: str, snapshot: SnapshotContent, *, epoch: int, now_ms: int) -> int:
    """Write a snapshot or bootstrap file durably; return its size. Blocks: call it in a thread."""
    partial = f"{path.removesuffix(SUFFIX)}{PARTIAL_SUFFIX}"
    file = fs.open(partial, create=True)
    try:
        file.truncate(0)
        size = 0
        for batch in encode_snapshot(snapshot, epoch=epoch, now_ms=now_ms):
            size += file.pwritev([batch], size)
        file.fsync()
    finally:
        file.close()
    fs.rename(partial, path)
    fs.fsync_dir(path.rpartition("/")[0])
    return size


def read_snapshot(fs: FileSystem, path: str, epoch: int | None = None) -> SnapshotContent:
    """Read a snapshot of an epoch, or a bootstrap file, completely.

    Raises CorruptDataError unless it is complete and intact.
    """
    data = read_file(fs, path)
    try:
        return _parse_snapshot(path, data, epoch)
    except CorruptBatchError as error:
        raise CorruptDataError(path, str(error)) from error


def check_snapshot(fs: FileSystem, path: str, epoch: int) -> int:
    """Check the batches of a snapshot without reading its records; return its size. Raises CorruptDataError."""
    data = read_file(fs, path)
    controls = [header.is_control for _, header in _checked_batches(path, data, epoch)]
    if len(controls) < _MIN_BATCHES or not (controls[0] and controls[-1]):
        raise CorruptDataError(path, "is not a complete snapshot")
    return len(data)


def _parse_snapshot(path: str, data: bytes, epoch: int | None) -> SnapshotContent:
    records: list[Any] = []
    found: dict[type, Any] = {}
    for position, header in _checked_batches(path, data, epoch):
        for record in decode_records(data[position : position + header.size_in_bytes], header):
            if header.is_control:
                message = parse_control_record(record)
                found[type(message)] = message
            else:
                records.append(decode_record(record.value or b""))
    if SnapshotHeaderRecord not in found or SnapshotFooterRecord not in found:
        raise CorruptDataError(path, "is not a complete snapshot")
    voters = found.get(VotersRecord)
    version = found.get(KRaftVersionRecord)
    return SnapshotContent(
        records=records,
        last_timestamp=found[SnapshotHeaderRecord].last_contained_log_timestamp,
        kraft_version=0 if version is None else version.k_raft_version,
        voters=() if voters is None else voters_from_record(voters),
    )


def _checked_batches(path: str, data: bytes, epoch: int | None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the batches of a snapshot with their positions. Raises CorruptDataError for an invalid one.

    The checksum of a batch covers neither its offset nor its epoch. A snapshot numbers its offsets from 0, and all of
    its batches are of the epoch in its name: this detects a file whose content belongs to another name.
    """
    end = offset = 0
    for position, header in iter_headers(data):
        if header.magic != MAGIC_V2 or not crc_valid(data, position, header):
            raise CorruptDataError(path, f"wrong checksum at position {position}")
        if header.base_offset != offset or header.last_offset < offset:
            raise CorruptDataError(path, f"offset {header.base_offset} instead of {offset} at position {position}")
        if epoch not in (None, header.partition_leader_epoch):
            found = header.partition_leader_epoch
            raise CorruptDataError(path, f"epoch {found} instead of {epoch} at position {position}")
        end, offset = position + header.size_in_bytes, header.next_offset
        yield position, header
    if end != len(data):
        raise CorruptDataError(path, f"is not a complete snapshot: no batch at position {end} of {len(data)}")


class SnapshotHead(NamedTuple):
    """The content of a snapshot's first batch."""

    timestamp_ms: int
    kraft_version: int = 0
    voters: tuple[VoterNode, ...] = ()


def read_snapshot_head(fs: FileSystem, path: str) -> SnapshotHead:
    """Read only the first batch of a snapshot. Raises CorruptDataError."""
    file = fs.open(path, read_only=True)
    try:
        head = file.pread(_HEAD_BYTES, 0)
    finally:
        file.close()
    try:
        return _parse_head(path, head)
    except CorruptBatchError as error:
        raise CorruptDataError(path, str(error)) from error


def _parse_head(path: str, head: bytes) -> SnapshotHead:
    found: dict[type, Any] = {}
    for position, header in iter_headers(head):
        if crc_valid(head, position, header):
            messages = [parse_control_record(each) for each in decode_records(head[: header.size_in_bytes], header)]
            found = {type(message): message for message in messages}
        break
    if SnapshotHeaderRecord not in found:
        raise CorruptDataError(path, "does not begin with a snapshot header")
    version, voters = found.get(KRaftVersionRecord), found.get(VotersRecord)
    return SnapshotHead(
        found[SnapshotHeaderRecord].last_contained_log_timestamp,
        0 if version is None else version.k_raft_version,
        () if voters is None else voters_from_record(voters),
    )


def encode_snapshot(snapshot: SnapshotContent, *, epoch: int, now_ms: int) -> Iterator[bytes]:
    """Yield the batches of a snapshot."""
    head: list[Any] = [SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(snapshot.last_timestamp))]
    if snapshot.kraft_version > 0:
        head += [kraft_version_record(snapshot.kraft_version), voters_to_record(snapshot.voters)]
    yield build_control_batch(head, timestamp=now_ms, base_offset=0, leader_epoch=epoch)
    offset = len(head)
    for values in _split_by_size(snapshot.records):
        records = [Record(offset + index, now_ms, None, value) for index, value in enumerate(values)]
        yield build_batch(records, base_offset=offset, leader_epoch=epoch)
        offset += len(values)
    footer = SnapshotFooterRecord(version=i16(0))
    yield build_control_batch([footer], timestamp=now_ms, base_offset=offset, leader_epoch=epoch)


def _split_by_size(records: Sequence[Any]) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    size = 0
    for record in records:
        value = encode_record(record)
        if values and size + len(value) > _MAX_BATCH_BYTES:
            yield values
            values, size = [], 0
        values.append(value)
        size += len(value)
    if values:
        yield values
