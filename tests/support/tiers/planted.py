"""A small tier whose bytes a test can spoil: segments with true indexes, as brokers write them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from crabka.formats.checkpoints import encode_epochs
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.time_index import TimeIndex
from crabka.formats.transaction_index import AbortedTransaction, encode_aborted
from crabka.ids import uuid_to_text
from crabka.log.producers.producer_state import ProducerEntry
from crabka.log.producers.snapshots import decode_snapshot, encode_snapshot
from crabka.ports import Buffer
from crabka.records.builder import build_batch
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import iter_headers
from crabka.records.record import Record
from crabka.remote.errors import InvalidRangeError, SegmentNotFoundError
from crabka.remote.layout import object_path
from crabka.remote.listing import TierObject
from crabka.remote.scrub import TierEvent, TierHistory
from crabka.remote.segments import (
    CustomMetadata,
    IndexType,
    LogSegmentData,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from crabka.remote.storage_manager import RemoteStorageManager

ORDERS = TopicIdPartition(uuid.UUID(int=0xABCDEF), "orders", 0)
FIRST_TIMESTAMP_MS = 1_700_000_000_000
STORED_MS = 1_000
PIECE_BYTES = 100
PRODUCER_ID = 77


class PlantedStorage(RemoteStorageManager):
    """Objects in memory, under the names of `layout`; reads come in small pieces."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata | None:
        raise NotImplementedError

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None) -> Buffer:
        data = self._get(metadata, None)
        if start > len(data):
            raise InvalidRangeError(f"{start} lies behind the end")
        return data[start : None if end is None else end + 1]

    def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int | None = None
    ) -> Iterator[Buffer]:
        data = self.fetch_log_segment(metadata, start, end)
        for position in range(0, len(data), PIECE_BYTES):
            yield data[position : position + PIECE_BYTES]

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return self._get(metadata, index_type)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        for index_type in (None, *IndexType):
            self.objects.pop(object_path(metadata, index_type), None)

    def list_objects(self, prefix: str = "") -> Iterator[TierObject]:
        for path, data in self.objects.items():
            directory, _, name = path.rpartition("/")
            if directory.startswith(prefix):
                yield TierObject(directory, name, len(data), STORED_MS)

    def _get(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> bytes:
        try:
            return self.objects[object_path(metadata, index_type)]
        except KeyError:
            raise SegmentNotFoundError(metadata.segment_id) from None


@dataclass
class PlantedTier:
    """A storage, the events of its metadata, and the finished segments in the order in which they were made."""

    storage: PlantedStorage = field(default_factory=PlantedStorage)
    history: TierHistory = field(default_factory=TierHistory)
    segments: list[RemoteLogSegmentMetadata] = field(default_factory=list)
    events: list[TierEvent] = field(default_factory=list)
    first_id: int = 1

    def apply(self, event: TierEvent) -> None:
        """Let something happen to a segment."""
        self.history.apply(event)
        self.events.append(event)

    def add(
        self,
        log: bytes,
        epochs: Sequence[tuple[int, int]],
        *,
        aborted: Sequence[AbortedTransaction] = (),
        partition: TopicIdPartition = ORDERS,
    ) -> RemoteLogSegmentMetadata:
        """Store a segment with these batches; `epochs` is the whole lineage up to its end."""
        headers = [header for _, header in iter_headers(log)]
        start, end = headers[0].base_offset, headers[-1].last_offset
        begun = [epoch for epoch, first in epochs if first <= start][-1]
        metadata = RemoteLogSegmentMetadata(
            segment_id=RemoteLogSegmentId(partition, uuid.UUID(int=self.first_id + len(self.segments))),
            start_offset=start,
            end_offset=end,
            max_timestamp_ms=max(header.max_timestamp for header in headers),
            broker_id=1,
            event_timestamp_ms=STORED_MS,
            segment_size_bytes=len(log),
            leader_epochs=((begun, start), *((epoch, first) for epoch, first in epochs if first > start)),
            txn_index_empty=not aborted,
        )
        self.put(metadata, None, log)
        self.put(metadata, IndexType.OFFSET, offset_index(log))
        self.put(metadata, IndexType.TIMESTAMP, time_index(log))
        self.put(metadata, IndexType.PRODUCER_SNAPSHOT, encode_snapshot(self._producers(metadata, log)))
        self.put(metadata, IndexType.LEADER_EPOCH, encode_epochs(epochs))
        if aborted:
            self.put(metadata, IndexType.TRANSACTION, encode_aborted(aborted))
        return self.note(metadata)

    def _producers(self, metadata: RemoteLogSegmentMetadata, log: bytes) -> list[ProducerEntry]:
        """Return the producers after a segment, with the transactions that are open then."""
        before = [
            each
            for each in self.segments
            if each.topic_id_partition == metadata.topic_id_partition and each.end_offset == metadata.start_offset - 1
        ]
        open_from = {PRODUCER_ID: -1}
        for path in (object_path(each, IndexType.PRODUCER_SNAPSHOT) for each in before):
            if path in self.storage.objects:
                snapshot = decode_snapshot(self.storage.objects[path])
                open_from |= {entry.producer_id: entry.txn_first_offset for entry in snapshot}
        for _, header in iter_headers(log):
            if header.is_control:
                open_from[header.producer_id] = -1
            elif header.is_transactional and open_from.get(header.producer_id, -1) < 0:
                open_from[header.producer_id] = header.base_offset
        producers = [ProducerEntry(producer_id, 0) for producer_id in open_from]
        for producer in producers:
            producer.txn_first_offset = open_from[producer.producer_id]
        return producers

    def note(self, metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
        """Add a segment to the metadata and finish it."""
        self.apply(metadata)
        self.apply(update(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
        finished = replace(metadata, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        self.segments.append(finished)
        return finished

    def put(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None, data: bytes) -> None:
        self.storage.objects[object_path(metadata, index_type)] = data

    def get(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> bytes:
        return self.storage.objects[object_path(metadata, index_type)]

    def remove(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None) -> None:
        del self.storage.objects[object_path(metadata, index_type)]

    def flip(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType | None, bit: int) -> None:
        """Turn one bit of an object, counted from its start, or from its end if negative."""
        data = bytearray(self.get(metadata, index_type))
        data[bit // 8] ^= 1 << (bit % 8)
        self.put(metadata, index_type, bytes(data))


def two_segments(partition: TopicIdPartition = ORDERS, first_id: int = 1) -> PlantedTier:
    """A clean tier: offsets 0..29 in epoch 0, 30..44 in epoch 0 and 45..59 in epoch 2."""
    tier = PlantedTier(first_id=first_id)
    tier.add(batches(0, 6), [(0, 0)], partition=partition)
    tier.add(batches(30, 3) + batches(45, 3, epoch=2), [(0, 0), (2, 45)], partition=partition)
    return tier


def batches(start: int, count: int, *, epoch: int = 0, records_each: int = 5, value: bytes = b"x" * 40) -> bytes:
    """Return batches of equal size; timestamps count up with offsets."""
    return b"".join(
        build_batch(
            [Record(0, FIRST_TIMESTAMP_MS + base + index, b"key", value) for index in range(records_each)],
            base_offset=base,
            leader_epoch=epoch,
        )
        for base in range(start, start + count * records_each, records_each)
    )


def transaction(start: int, *, committed: bool, producer_id: int = PRODUCER_ID) -> bytes:
    """Return a transactional batch of two records and the marker that ends it, offsets start..start+2."""
    data = build_batch(
        [Record(0, FIRST_TIMESTAMP_MS + start + index, None, b"in a transaction") for index in range(2)],
        base_offset=start,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    return data + build_end_transaction_batch(
        EndTransactionMarker(committed, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=FIRST_TIMESTAMP_MS + start + 2,
        base_offset=start + 2,
        leader_epoch=0,
    )


def offset_index(log: bytes, every: int = 2) -> bytes:
    """Return the offset index of batches, with every second one in it."""
    headers = list(iter_headers(log))
    index = OffsetIndex(headers[0][1].base_offset)
    for position, header in headers[1::every]:
        index.append(header.last_offset, position)
    return index.encode()


def time_index(log: bytes, every: int = 2) -> bytes:
    """Return the time index of batches, with every second one and the last in it."""
    headers = [header for _, header in iter_headers(log)]
    index = TimeIndex(headers[0].base_offset)
    for header in (*headers[1::every], headers[-1]):
        index.maybe_append(header.max_timestamp, header.last_offset)
    return index.encode()


def update(
    metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState, *, at_ms: int = STORED_MS
) -> RemoteLogSegmentMetadataUpdate:
    """Return the event that brings a segment into a state."""
    return RemoteLogSegmentMetadataUpdate(
        segment_id=metadata.segment_id, event_timestamp_ms=at_ms, state=state, broker_id=1
    )


def segment_text(metadata: RemoteLogSegmentMetadata) -> str:
    """Return the id of a segment as it is printed."""
    return uuid_to_text(metadata.segment_id.id)
