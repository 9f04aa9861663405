"""Reads any legal form of an event of the metadata topic, also with tagged fields that later brokers add (KIP-482).

Slower than what `serde` does with the form that brokers write today; `serde` comes here when it meets another.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Final, TypeAlias

from crabka.errors import CrabkaError
from crabka.remote.segments import (
    CustomMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

MetadataEvent: TypeAlias = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
"""What a record of the metadata topic says."""

FRAME_VERSION: Final = 1
MESSAGE_VERSION: Final = 0
SEGMENT_KIND: Final = 0
UPDATE_KIND: Final = 1
PARTITION_DELETE_KIND: Final = 2
TXN_INDEX_EMPTY_TAG: Final = 0

_INT8 = struct.Struct(">b")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UUID_BYTES = 16
_EPOCH_BYTES = 13  # the least that one epoch takes


class MetadataEventError(CrabkaError):
    """A record of the metadata topic is not an event."""


def read_event(value: bytes) -> MetadataEvent:
    """Return the event in a record's value. Raises MetadataEventError."""
    reader = EventReader(value)
    frame_version, kind, version = reader.varint(), reader.varint(), reader.varint()
    if (frame_version, version) != (FRAME_VERSION, MESSAGE_VERSION) or kind not in _READERS:
        raise MetadataEventError(f"frame version {frame_version}, kind {kind} and version {version} are not known")
    try:
        event = _READERS[kind](reader)
    # A state that does not exist, a name that is not UTF-8, a segment that contradicts itself.
    except ValueError as error:
        raise MetadataEventError(f"the event is malformed: {error}") from error
    if reader.left:
        raise MetadataEventError(f"{reader.left} bytes follow the event")
    return event


class EventReader:
    """Walks over the bytes of an event."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._position = 0

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return len(self._value) - self._position

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > self.left:
            raise MetadataEventError("the event is cut short")
        start = self._position
        self._position += size
        return self._value[start : self._position]

    def varint(self) -> int:
        """Return an unsigned varint of up to 32 bits."""
        number = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise MetadataEventError("a varint is longer than five bytes")

    def int8(self) -> int:
        """Return a signed byte."""
        number: int = _INT8.unpack(self.take(1))[0]
        return number

    def int32(self) -> int:
        """Return a signed number of four bytes."""
        number: int = _INT32.unpack(self.take(4))[0]
        return number

    def int64(self) -> int:
        """Return a signed number of eight bytes."""
        number: int = _INT64.unpack(self.take(8))[0]
        return number

    def uuid(self) -> uuid.UUID:
        """Return a UUID."""
        return uuid.UUID(bytes=self.take(_UUID_BYTES))

    def text(self) -> str:
        """Return a string, which may not be null."""
        length = self.varint()
        if not length:
            raise MetadataEventError("the event lacks a name")
        return self.take(length - 1).decode()

    def custom_metadata(self) -> CustomMetadata | None:
        """Return nullable bytes."""
        length = self.varint()
        return CustomMetadata(self.take(length - 1)) if length else None

    def tags(self) -> dict[int, bytes]:
        """Return tagged fields by their number."""
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}

    def epochs(self) -> tuple[tuple[int, int], ...]:
        """Return the leader epochs in rising order; Kafka reads them into a sorted map."""
        count = self.varint() - 1
        if count * _EPOCH_BYTES > self.left:
            raise MetadataEventError("the event is cut short")
        found: dict[int, int] = {}
        for _ in range(count):
            epoch = self.int32()
            found[epoch] = self.int64()
            self.tags()
        return tuple(sorted(found.items()))

    def partition(self) -> TopicIdPartition:
        """Return a partition."""
        topic, topic_id, partition = self.text(), self.uuid(), self.int32()
        self.tags()
        return TopicIdPartition(topic_id, topic, partition)

    def segment_id(self) -> RemoteLogSegmentId:
        """Return the id of a segment."""
        segment_id = RemoteLogSegmentId(self.partition(), self.uuid())
        self.tags()
        return segment_id


def _segment(reader: EventReader) -> RemoteLogSegmentMetadata:
    segment_id, start, end, broker_id = reader.segment_id(), reader.int64(), reader.int64(), reader.int32()
    max_timestamp_ms, event_timestamp_ms = reader.int64(), reader.int64()
    epochs, size, custom = reader.epochs(), reader.int32(), reader.custom_metadata()
    state = RemoteLogSegmentState(reader.int8())
    return RemoteLogSegmentMetadata(
        segment_id=segment_id,
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        segment_size_bytes=size,
        leader_epochs=epochs,
        state=state,
        custom_metadata=custom,
        txn_index_empty=any(reader.tags().get(TXN_INDEX_EMPTY_TAG, b"")),
    )


def _update(reader: EventReader) -> RemoteLogSegmentMetadataUpdate:
    # Arguments are evaluated in the order of the fields on the wire.
    update = RemoteLogSegmentMetadataUpdate(
        segment_id=reader.segment_id(),
        broker_id=reader.int32(),
        event_timestamp_ms=reader.int64(),
        custom_metadata=reader.custom_metadata(),
        state=RemoteLogSegmentState(reader.int8()),
    )
    reader.tags()
    return update


def _partition_delete(reader: EventReader) -> RemotePartitionDeleteMetadata:
    metadata = RemotePartitionDeleteMetadata(
        topic_id_partition=reader.partition(),
        broker_id=reader.int32(),
        event_timestamp_ms=reader.int64(),
        state=RemotePartitionDeleteState(reader.int8()),
    )
    reader.tags()
    return metadata


_READERS: Final[dict[int, Callable[[EventReader], MetadataEvent]]] = {
    SEGMENT_KIND: _segment,
    UPDATE_KIND: _update,
    PARTITION_DELETE_KIND: _partition_delete,
}
