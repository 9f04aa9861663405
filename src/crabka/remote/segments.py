"""The data model of the remote tier: segments, their metadata and the states of both (KIP-405).

Values only: how states may follow each other is in `lifecycle`, what a reader finds is in `metadata_cache`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final

from crabka.formats.file_names import INDEX_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from crabka.formats.object_names import LEADER_EPOCH_SUFFIX
from crabka.ids import TopicPartition, uuid_to_text

# A log can continue after it: the next offset still fits eight bytes.
LAST_OFFSET: Final = (1 << 63) - 2


@dataclass(frozen=True, slots=True)
class TopicIdPartition:
    """A partition of a topic that may be deleted and created again under its name: the id counts, not the name."""

    topic_id: uuid.UUID
    topic: str = field(compare=False)
    partition: int

    def __hash__(self) -> int:
        # Not that of the id, which is a call more for each event of a replay.
        return hash((self.topic_id.int, self.partition))

    @property
    def topic_partition(self) -> TopicPartition:
        """Name and index."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} ({uuid_to_text(self.topic_id)})"


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentId:
    """One upload of a segment; another upload of the same offsets has another id."""

    topic_id_partition: TopicIdPartition
    id: uuid.UUID

    def __str__(self) -> str:
        return f"segment {uuid_to_text(self.id)} of {self.topic_id_partition}"


class RemoteLogSegmentState(IntEnum):
    """Where a segment is in its life; the values are those on the wire."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """How far the deletion of a whole partition is; the values are those on the wire."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


@dataclass(frozen=True, slots=True)
class CustomMetadata:
    """What a storage wants back with each later call for the segment; opaque to others."""

    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadata:
    """All that is known of a segment. Raises ValueError if it contradicts itself.

    `end_offset` is that of the last record. `leader_epochs` has (epoch, first offset) in rising order, cut to the
    segment. `max_timestamp_ms` is -1 if unknown.
    """

    segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_bytes: int
    leader_epochs: tuple[tuple[int, int], ...]
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    custom_metadata: CustomMetadata | None = None
    txn_index_empty: bool = False

    def __post_init__(self) -> None:
        if self.end_offset < self.start_offset:
            raise ValueError(f"{self.segment_id} ends at {self.end_offset}, before its start {self.start_offset}")
        if self.start_offset < 0 or self.end_offset > LAST_OFFSET:
            raise ValueError(
                f"{self.segment_id} has offsets {self.start_offset} to {self.end_offset}, which no log has"
            )
        if self.segment_size_bytes < 0:
            raise ValueError(f"{self.segment_id} has a size of {self.segment_size_bytes} bytes")
        if not self.leader_epochs:
            raise ValueError(f"{self.segment_id} has no leader epoch")
        if any(epoch < 0 or first < 0 for epoch, first in self.leader_epochs):
            raise ValueError(f"{self.segment_id} has leader epochs that no log has: {self.leader_epochs}")

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition that the segment belongs to."""
        return self.segment_id.topic_id_partition

    def with_update(self, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
        """Return the metadata as it is after an update, which is not checked here."""
        custom = self.custom_metadata if update.custom_metadata is None else update.custom_metadata
        return self.moved(update.state, update.broker_id, update.event_timestamp_ms, custom)

    def moved(
        self,
        state: RemoteLogSegmentState,
        broker_id: int,
        event_timestamp_ms: int,
        custom_metadata: CustomMetadata | None,
    ) -> RemoteLogSegmentMetadata:
        """Return the metadata as it is after a step, which is not checked here."""
        draft = SegmentDraft()
        draft.segment_id = self.segment_id
        draft.start_offset = self.start_offset
        draft.end_offset = self.end_offset
        draft.max_timestamp_ms = self.max_timestamp_ms
        draft.broker_id = broker_id
        draft.event_timestamp_ms = event_timestamp_ms
        draft.segment_size_bytes = self.segment_size_bytes
        draft.leader_epochs = self.leader_epochs
        draft.state = state
        draft.custom_metadata = custom_metadata
        draft.txn_index_empty = self.txn_index_empty
        return draft.done()


class SegmentDraft:
    """Metadata of a segment in the making, for the replay of many events: takes a fifth of the time.

    Fields of frozen dataclasses are slow to set. Here they are set in an object with the same slots, which then becomes
    the real thing. The caller sets every field; nothing is checked.
    """

    __slots__ = RemoteLogSegmentMetadata.__slots__

    segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_bytes: int
    leader_epochs: tuple[tuple[int, int], ...]
    state: RemoteLogSegmentState
    custom_metadata: CustomMetadata | None
    txn_index_empty: bool

    def done(self) -> RemoteLogSegmentMetadata:
        """Become the metadata, which is immutable."""
        self.__class__ = RemoteLogSegmentMetadata  # type: ignore[assignment] # the slots are the same
        return self  # type: ignore[return-value] # what it is now


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadataUpdate:
    """A step in the life of a segment."""

    segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    broker_id: int
    custom_metadata: CustomMetadata | None = None

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition that the segment belongs to."""
        return self.segment_id.topic_id_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePartitionDeleteMetadata:
    """A step in the deletion of a partition."""

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int


class IndexType(Enum):
    """What is stored beside the batches of a segment; the values are the suffixes of Kafka's file names."""

    OFFSET = INDEX_SUFFIX
    TIMESTAMP = TIME_INDEX_SUFFIX
    PRODUCER_SNAPSHOT = SNAPSHOT_SUFFIX
    TRANSACTION = TXN_INDEX_SUFFIX
    LEADER_EPOCH = LEADER_EPOCH_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegmentData:
    """The files of a local segment that go to the tier. Only the transaction index may be missing."""

    log_segment: str
    offset_index: str
    time_index: str
    producer_snapshot_index: str
    transaction_index: str | None = None
    # Text of a leader-epoch-checkpoint with all epochs up to the end of the segment.
    leader_epoch_index: bytes


def newest_segment(segments: Iterable[RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata | None:
    """Return the segment that the latest leader copied last; its epochs are the history of the tier."""
    return max(segments, key=lambda each: (each.leader_epochs[-1][0], each.end_offset), default=None)
