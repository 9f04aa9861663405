"""The hand-written form of events equals that of the schema classes, whatever the event."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crabka.protocol.entity_codec import decode_entity, encode_entity
from crabka.protocol.generated.storage import (
    remote_log_segment_metadata_record as segment_schema,
)
from crabka.protocol.generated.storage import (
    remote_log_segment_metadata_update_record as update_schema,
)
from crabka.protocol.generated.storage import (
    remote_partition_delete_metadata_record as delete_schema,
)
from crabka.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)
from crabka.remote_topic.event_reader import MetadataEvent, MetadataEventError, read_event
from crabka.remote_topic.serde import decode_event, encode_event, maybe_step
from tests.support.tier_topic.events import partition_deletes, segments, updates

EVENTS = segments() | updates() | partition_deletes()
PREFIX_BYTES = 3


def by_schema(event: MetadataEvent) -> bytes:
    """Return what the schema classes write."""
    match event:
        case RemoteLogSegmentMetadata():
            return b"\x01\x00\x00" + encode_entity(_segment_message(event))
        case RemoteLogSegmentMetadataUpdate():
            return b"\x01\x01\x00" + encode_entity(
                update_schema.RemoteLogSegmentMetadataUpdateRecord(
                    remote_log_segment_id=_segment_id(update_schema, event.segment_id),
                    broker_id=event.broker_id,
                    event_timestamp_ms=event.event_timestamp_ms,
                    custom_metadata=None if event.custom_metadata is None else event.custom_metadata.value,
                    remote_log_segment_state=event.state,
                )
            )
        case RemotePartitionDeleteMetadata():
            return b"\x01\x02\x00" + encode_entity(
                delete_schema.RemotePartitionDeleteMetadataRecord(
                    topic_id_partition=_partition(delete_schema, event.topic_id_partition),
                    broker_id=event.broker_id,
                    event_timestamp_ms=event.event_timestamp_ms,
                    remote_partition_delete_state=event.state,
                )
            )


def _segment_message(event: RemoteLogSegmentMetadata) -> segment_schema.RemoteLogSegmentMetadataRecord:
    return segment_schema.RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=_segment_id(segment_schema, event.segment_id),
        start_offset=event.start_offset,
        end_offset=event.end_offset,
        broker_id=event.broker_id,
        max_timestamp_ms=event.max_timestamp_ms,
        event_timestamp_ms=event.event_timestamp_ms,
        segment_leader_epochs=tuple(
            segment_schema.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
            for epoch, offset in event.leader_epochs
        ),
        segment_size_in_bytes=event.segment_size_bytes,
        custom_metadata=None if event.custom_metadata is None else event.custom_metadata.value,
        remote_log_segment_state=event.state,
        txn_index_empty=event.txn_index_empty,
    )


def _segment_id(schema: Any, segment_id: RemoteLogSegmentId) -> Any:
    partition = _partition(schema, segment_id.topic_id_partition)
    return schema.RemoteLogSegmentIdEntry(topic_id_partition=partition, id=segment_id.id)


def _partition(schema: Any, partition: TopicIdPartition) -> Any:
    return schema.TopicIdPartitionEntry(name=partition.topic, id=partition.topic_id, partition=partition.partition)


@given(EVENTS)
def test_events_are_written_as_by_the_schema_and_read_back(event: MetadataEvent) -> None:
    value = encode_event(event)
    assert value == by_schema(event)
    back = decode_event(value)
    assert back == event
    assert read_event(value) == event
    assert back.topic_id_partition.topic == read_event(value).topic_id_partition.topic == event.topic_id_partition.topic


@given(EVENTS)
def test_the_schema_reads_what_is_written_by_hand(event: MetadataEvent) -> None:
    value = encode_event(event)
    schema = (
        segment_schema.RemoteLogSegmentMetadataRecord,
        update_schema.RemoteLogSegmentMetadataUpdateRecord,
        delete_schema.RemotePartitionDeleteMetadataRecord,
    )[value[1]]
    message, size = decode_entity(schema, value, PREFIX_BYTES)
    assert size == len(value) - PREFIX_BYTES
    assert encode_entity(message) == value[PREFIX_BYTES:]


@given(EVENTS, st.data())
def test_broken_bytes_raise_nothing_else_than_the_error_of_events(event: MetadataEvent, data: st.DataObject) -> None:
    value = bytearray(encode_event(event))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MetadataEventError):
        # What still is an event is the same one to both readers.
        assert decode_event(bytes(value)) == read_event(bytes(value))


@given(EVENTS, st.binary(max_size=20))
def test_the_reader_of_all_forms_skips_unknown_tagged_fields(event: MetadataEvent, field: bytes) -> None:
    value = encode_event(event)
    is_tagged = isinstance(event, RemoteLogSegmentMetadata) and event.txn_index_empty
    tags = value[-3:] if is_tagged else b""
    head = value[: -len(tags) - 1]
    later = head + bytes((1 + is_tagged,)) + tags + b"\x09" + bytes((len(field),)) + field
    assert decode_event(later) == event


@given(EVENTS, st.data())
def test_what_is_taken_for_a_plain_step_is_the_update_that_all_others_read(
    event: MetadataEvent, data: st.DataObject
) -> None:
    value = bytearray(encode_event(event))
    for _ in range(data.draw(st.integers(0, 2))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    found = maybe_step(bytes(value))
    if found is not None:
        partition, (key, state, broker_id, event_timestamp_ms) = found
        update = read_event(bytes(value))
        assert isinstance(update, RemoteLogSegmentMetadataUpdate)
        assert (partition, partition.topic) == (update.topic_id_partition, update.topic_id_partition.topic)
        assert (key, state) == (update.segment_id.id.int, update.state)
        assert (broker_id, event_timestamp_ms) == (update.broker_id, update.event_timestamp_ms)
        assert update.custom_metadata is None


@given(updates())
def test_updates_without_custom_metadata_are_plain_steps(update: RemoteLogSegmentMetadataUpdate) -> None:
    is_short = len(update.topic_id_partition.topic.encode()) < 0x7F
    found = maybe_step(encode_event(update))
    assert (found is not None) == (update.custom_metadata is None and is_short)


@given(updates())
def test_a_step_that_is_cut_or_has_a_tail_is_none(update: RemoteLogSegmentMetadataUpdate) -> None:
    value = encode_event(replace(update, custom_metadata=None))
    assert [size for size in range(len(value)) if maybe_step(value[:size]) is not None] == []
    assert maybe_step(value + b"\x00") is None
