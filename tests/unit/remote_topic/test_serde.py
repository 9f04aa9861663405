"""Events as bytes: Kafka's own, their edges, and what is not an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crabka.ids import uuid_to_text
from crabka.remote.segments import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteState,
)
from crabka.remote_topic.event_reader import MetadataEvent, MetadataEventError
from crabka.remote_topic.serde import decode_event, encode_event, maybe_step
from crabka.testing.remote_samples import sample_partition_delete, sample_segment, sample_update
from tests.support.tier_topic.events import FINISHED, golden_event_values, golden_segments, partition_named

SEGMENT = sample_segment(1, (5, 9), partition=partition_named("t", 2), with_txn_index=True)
EVENTS: list[MetadataEvent] = [
    SEGMENT,
    sample_update(SEGMENT, FINISHED),
    sample_partition_delete(RemotePartitionDeleteState.DELETE_PARTITION_STARTED),
]


@pytest.mark.parametrize("node", ["single", "overlap"])
def test_what_kafka_wrote_is_written_again_byte_by_byte(node: str) -> None:
    values = [value for records in golden_event_values(node).values() for _, value in records]
    assert [encode_event(decode_event(value)) for value in values] == values


@pytest.mark.parametrize("node", ["single", "overlap"])
def test_segments_and_their_histories_are_those_of_kafka(node: str) -> None:
    segments: dict[str, RemoteLogSegmentMetadata] = {}
    histories: dict[str, list[str]] = {}
    for records in golden_event_values(node).values():
        for _, value in records:
            event = decode_event(value)
            key = uuid_to_text(event.segment_id.id)  # type: ignore[union-attr] # Kafka deletes segment by segment
            if isinstance(event, RemoteLogSegmentMetadata):
                segments[key] = event
            else:
                segments[key] = segments[key].with_update(event)  # type: ignore[arg-type] # the same
            histories.setdefault(key, []).append(event.state.name)
    found = [
        {
            "topic": segment.topic_id_partition.topic,
            "partition": segment.topic_id_partition.partition,
            "topic_id": uuid_to_text(segment.topic_id_partition.topic_id),
            "segment_id": key,
            "start_offset": segment.start_offset,
            "end_offset": segment.end_offset,
            "max_timestamp": segment.max_timestamp_ms,
            "size": segment.segment_size_bytes,
            "leader_epochs": ", ".join(f"{epoch}={offset}" for epoch, offset in segment.leader_epochs),
            "txn_index_empty": segment.txn_index_empty,
            "state": segment.state.name,
            "history": histories[key],
        }
        for key, segment in segments.items()
    ]
    expected = golden_segments(node)
    assert sorted(found, key=lambda row: str(row["segment_id"])) == sorted(expected, key=lambda row: row["segment_id"])


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_that_is_cut_or_followed_by_bytes_is_none(event: MetadataEvent) -> None:
    value = encode_event(event)
    assert decode_event(value) == event
    for size in range(len(value)):
        with pytest.raises(MetadataEventError):
            decode_event(value[:size])
    with pytest.raises(MetadataEventError):
        decode_event(value + b"\x00")


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (b"\x00\x00\x00", "frame version 0"),
        (b"\x01\x03\x00", "kind 3"),
        (b"\x01\x00\x01", "version 1"),
        (b"\x01\x80\x01\x00", "kind 128"),
        (b"\x80\x80\x80\x80\x80\x01", "longer than five"),
    ],
)
def test_an_unknown_kind_or_version_is_refused(prefix: bytes, message: str) -> None:
    with pytest.raises(MetadataEventError, match=message):
        decode_event(prefix + encode_event(SEGMENT)[3:])


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_state_that_does_not_exist_is_refused(event: MetadataEvent) -> None:
    value = bytearray(encode_event(event))
    assert value[-2] == event.state
    for state in (4, 0x80, 0xFF):
        value[-2] = state
        with pytest.raises(MetadataEventError):
            decode_event(bytes(value))


def test_a_segment_that_contradicts_itself_is_refused() -> None:
    ends_before_start = encode_event(replace(SEGMENT, start_offset=7, end_offset=8)).replace(
        (8).to_bytes(8, "big"), (6).to_bytes(8, "big")
    )
    with pytest.raises(MetadataEventError, match="before its start"):
        decode_event(ends_before_start)


@pytest.mark.parametrize("epochs", [((1, 5),), ((1, 5), (2, 6))])
@pytest.mark.parametrize(
    "change",
    [
        {"start_offset": -1},
        {"start_offset": -(2**63), "end_offset": -5},
        {"end_offset": 2**63 - 1},
        {"leader_epochs": ((-1, 5),)},
        {"leader_epochs": ((1, -5),)},
        {"leader_epochs": ((1, 5), (2, -6))},
    ],
)
def test_numbers_that_no_log_has_are_refused(change: dict[str, Any], epochs: tuple[tuple[int, int], ...]) -> None:
    """A leader may begin after a segment of the tier, and must be able to."""
    segment = replace(SEGMENT, start_offset=5, end_offset=9, leader_epochs=epochs)
    for name, value in change.items():
        object.__setattr__(segment, name, value)
    with pytest.raises(MetadataEventError, match="no log has"):
        decode_event(encode_event(segment))


def test_a_tagged_field_of_a_later_version_is_skipped() -> None:
    value = encode_event(SEGMENT)
    later = value[:-1] + b"\x02" + b"\x00\x01\x01" + b"\x05\x02hi"
    assert decode_event(later) == replace(SEGMENT, txn_index_empty=True)
    update = encode_event(EVENTS[1])
    assert decode_event(update[:-1] + b"\x01\x07\x01x") == EVENTS[1]


def test_epochs_in_another_order_are_sorted() -> None:
    epochs = ((1, 5), (2, 6))
    value = encode_event(replace(SEGMENT, leader_epochs=((2, 6), (1, 5))))
    assert decode_event(value) == replace(SEGMENT, leader_epochs=epochs)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 20_000])
def test_custom_metadata_of_any_size_is_kept(size: int) -> None:
    custom = CustomMetadata(b"c" * size)
    segment = replace(SEGMENT, custom_metadata=custom)
    update = replace(sample_update(SEGMENT, FINISHED), custom_metadata=custom)
    assert decode_event(encode_event(segment)) == segment
    assert decode_event(encode_event(update)) == update


def test_names_and_epoch_lists_beyond_one_length_byte_are_read() -> None:
    event = replace(
        sample_segment(1, (0, 9), partition=partition_named("n" * 249)), leader_epochs=tuple((e, e) for e in range(200))
    )
    assert decode_event(encode_event(event)) == event


def test_partitions_of_many_events_are_one_object() -> None:
    first, second = (decode_event(encode_event(sample_segment(number, (0, 9)))) for number in (1, 2))
    assert first.topic_id_partition is second.topic_id_partition


@pytest.mark.parametrize("node", ["single", "overlap"])
def test_the_updates_that_kafka_wrote_are_plain_steps(node: str) -> None:
    for records in golden_event_values(node).values():
        for _, value in records:
            event = decode_event(value)
            if isinstance(event, RemoteLogSegmentMetadataUpdate) and event.custom_metadata is None:
                step = (event.segment_id.id.int, event.state, event.broker_id, event.event_timestamp_ms)
                assert maybe_step(value) == (event.topic_id_partition, step)
            else:
                assert maybe_step(value) is None


def test_other_events_and_other_forms_are_no_plain_steps() -> None:
    segment, update, deletion = (encode_event(event) for event in EVENTS)
    assert maybe_step(update) is not None
    tagged = update[:-1] + b"\x01\x05\x01x"
    unknown_state = update[:-2] + b"\x04\x00"
    unknown_version = update[:2] + b"\x01" + update[3:]
    custom = encode_event(replace(sample_update(SEGMENT, FINISHED), custom_metadata=CustomMetadata(b"")))
    for value in (b"", update[:3], segment, deletion, tagged, unknown_state, unknown_version, custom):
        assert maybe_step(value) is None
    assert decode_event(tagged) == decode_event(update)
