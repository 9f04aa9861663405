"""What is known of one metadata partition as a file, so that a start need not read all events again.

    magic "CRLM" | version int16 | topic id | partition count int32 | partition int32 | next offset int64
    | leader epoch int32 of the event before the next offset, -1 if not known; not in version 1
    | count int32 of known partitions, each:
        name length int16 | name | topic id | partition int32
        | count int32 of segments, each: length int32 | event in the form of the topic, with its current state
        | count int32 of epochs, each: epoch int32 | highest offset int64
        | length int32 of the deletion's last event, 0 without one | event
    | CRC-32C int32 of all before

Everything is an integer in network order. A file of another topic, of another count of partitions or with any fault
counts as none: the events are then read again from the first on. The files lie in a log dir itself: Apache Kafka, which
may take that over, does not start where it finds a directory that it does not know, but passes over files.
"""

from __future__ import annotations

import logging
import posixpath
import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import crc32c

from crabka.errors import CorruptDataError
from crabka.ports import FileSystem
from crabka.remote.inmemory import PartitionDump, RlmmCacheDump
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from crabka.remote_topic.event_reader import MetadataEventError
from crabka.remote_topic.serde import decode_event, encode_event
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.ids import TopicId

MAGIC: Final = b"CRLM"
VERSION: Final = 2
NO_EPOCH: Final = -1

_HEADER = struct.Struct(">4sh16siiqii")
_HEADER_OF_VERSION_1 = struct.Struct(">4sh16siiqi")
_VERSION = struct.Struct(">4xh")
_NAME = struct.Struct(">h")
_PARTITION = struct.Struct(">16si")
_COUNT = struct.Struct(">i")
_EPOCH = struct.Struct(">iq")
_CRC = struct.Struct(">I")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the events of a metadata partition before `next_offset` amount to."""

    topic_id: TopicId
    partition_count: int
    partition: int
    next_offset: int
    dump: RlmmCacheDump
    # Of the last of these events: shows whether a log still has them. -1 if unknown.
    leader_epoch: int = NO_EPOCH


def snapshot_path(directory: str, partition: int) -> str:
    """Return where the snapshot of a metadata partition lies."""
    return posixpath.join(directory, f"remote-log-metadata-{partition:05d}.snapshot")


def write_snapshot(fs: FileSystem, directory: str, snapshot: Snapshot) -> None:
    """Replace the snapshot of a metadata partition in one step. Raises OSError."""
    if not fs.exists(directory):
        fs.makedirs(directory)
        fs.fsync_dir(posixpath.dirname(directory))
    write_atomic(fs, snapshot_path(directory, snapshot.partition), encode_snapshot(snapshot))


def load_snapshot(
    fs: FileSystem, directory: str, *, topic_id: TopicId, partition_count: int, partition: int
) -> Snapshot | None:
    """Return the snapshot of a metadata partition, None if there is none that can be used."""
    path = snapshot_path(directory, partition)
    try:
        snapshot = decode_snapshot(read_file(fs, path), path)
    except FileNotFoundError:
        return None
    except (OSError, CorruptDataError) as error:
        logger.warning("the events of metadata partition %d are read again from the first on: %s", partition, error)
        return None
    if (snapshot.topic_id, snapshot.partition_count, snapshot.partition) != (topic_id, partition_count, partition):
        logger.warning("%s belongs to another topic; the events are read again from the first on", path)
        return None
    return snapshot


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the bytes of the file."""
    dumps = snapshot.dump.partitions
    out = bytearray(
        _HEADER.pack(
            MAGIC,
            VERSION,
            snapshot.topic_id.bytes,
            snapshot.partition_count,
            snapshot.partition,
            snapshot.next_offset,
            snapshot.leader_epoch,
            len(dumps),
        )
    )
    for dump in dumps:
        _write_dump(out, dump)
    out += _CRC.pack(crc32c.crc32c(out))
    return bytes(out)


def decode_snapshot(data: bytes, where: str) -> Snapshot:
    """Return what a file says; `where` names it. Raises CorruptDataError."""
    if len(data) < _HEADER_OF_VERSION_1.size + _CRC.size or data[:4] != MAGIC:
        raise CorruptDataError(where, "this is no snapshot of remote log metadata")
    (version,) = _VERSION.unpack_from(data)
    if version not in {1, VERSION}:
        raise CorruptDataError(where, f"version {version} of the format is not known")
    end = len(data) - _CRC.size
    if crc32c.crc32c(data[:end]) != _CRC.unpack_from(data, end)[0]:
        raise CorruptDataError(where, "the content does not fit its checksum")
    try:
        return _read_snapshot(data, end, version)
    # The checksum was right, so a writer with another idea of the format was here.
    except (MetadataEventError, struct.error, ValueError) as error:
        raise CorruptDataError(where, f"the content cannot be read: {error}") from error


def _write_dump(out: bytearray, dump: PartitionDump) -> None:
    partition = dump.topic_id_partition
    name = partition.topic.encode()
    out += _NAME.pack(len(name)) + name + _PARTITION.pack(partition.topic_id.bytes, partition.partition)
    out += _COUNT.pack(len(dump.segments))
    for segment in dump.segments:
        event = encode_event(segment)
        out += _COUNT.pack(len(event))
        out += event
    out += _COUNT.pack(len(dump.highest_offsets))
    for epoch, offset in dump.highest_offsets:
        out += _EPOCH.pack(epoch, offset)
    event = b"" if dump.partition_delete is None else encode_event(dump.partition_delete)
    out += _COUNT.pack(len(event)) + event


def _read_snapshot(data: bytes, end: int, version: int) -> Snapshot:
    header, leader_epoch = _HEADER, NO_EPOCH
    if version == VERSION:
        _, _, topic_id, partition_count, partition, next_offset, leader_epoch, count = header.unpack_from(data)
    else:
        header = _HEADER_OF_VERSION_1
        _, _, topic_id, partition_count, partition, next_offset, count = header.unpack_from(data)
    position = header.size
    dumps: list[PartitionDump] = []
    for _ in range(count):
        dump, position = _read_dump(data, position)
        dumps.append(dump)
    if position != end:
        raise ValueError(f"{end - position} bytes are left")
    return Snapshot(
        topic_id=uuid.UUID(bytes=topic_id),
        partition_count=partition_count,
        partition=partition,
        next_offset=next_offset,
        leader_epoch=leader_epoch,
        dump=RlmmCacheDump(tuple(dumps)),
    )


def _read_dump(data: bytes, position: int) -> tuple[PartitionDump, int]:
    (name_length,) = _NAME.unpack_from(data, position)
    position += _NAME.size
    name = data[position : position + name_length].decode()
    position += name_length
    topic_id, index = _PARTITION.unpack_from(data, position)
    partition = TopicIdPartition(uuid.UUID(bytes=topic_id), name, index)
    segments, position = _read_segments(data, position + _PARTITION.size)
    (epoch_count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    highest = tuple(_EPOCH.unpack_from(data, position + index * _EPOCH.size) for index in range(epoch_count))
    position += epoch_count * _EPOCH.size
    (length,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    deletion = decode_event(data[position : position + length]) if length else None
    if deletion is not None and not isinstance(deletion, RemotePartitionDeleteMetadata):
        raise ValueError("something else stands where a deletion should")
    dump = PartitionDump(
        topic_id_partition=partition,
        segments=segments,
        highest_offsets=highest,
        partition_delete=deletion,
    )
    return dump, position + length


def _read_segments(data: bytes, position: int) -> tuple[tuple[RemoteLogSegmentMetadata, ...], int]:
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    segments: list[RemoteLogSegmentMetadata] = []
    for _ in range(count):
        (length,) = _COUNT.unpack_from(data, position)
        start = position + _COUNT.size
        position = start + length
        segment = decode_event(data[start:position])
        if not isinstance(segment, RemoteLogSegmentMetadata):
            # A step of a segment without the segment means nothing.
            raise ValueError("something else stands where a segment should")  # noqa: TRY004 - it is about the file
        segments.append(segment)
    return tuple(segments), position
