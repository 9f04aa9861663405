"""The data model of the remote tier."""

from __future__ import annotations

import uuid
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from crabka.remote.segments import (
    CustomMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    SegmentDraft,
    TopicIdPartition,
    newest_segment,
)

PARTITION = TopicIdPartition(uuid.UUID(int=7), "events", 3)
SEGMENT = RemoteLogSegmentMetadata(
    segment_id=RemoteLogSegmentId(PARTITION, uuid.UUID(int=9)),
    start_offset=10,
    end_offset=19,
    max_timestamp_ms=1_000,
    broker_id=1,
    event_timestamp_ms=2_000,
    segment_size_bytes=512,
    leader_epochs=((0, 10), (2, 15)),
)


def test_a_partition_is_known_by_the_id_of_its_topic_and_not_by_the_name() -> None:
    renamed = TopicIdPartition(PARTITION.topic_id, "other", 3)
    assert renamed == PARTITION
    assert hash(renamed) == hash(PARTITION)
    assert TopicIdPartition(uuid.UUID(int=8), "events", 3) != PARTITION
    assert str(PARTITION) == "events-3 (AAAAAAAAAAAAAAAAAAAABw)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end_offset": 9}, "before its start 10"),
        ({"segment_size_bytes": -1}, "size of -1"),
        ({"leader_epochs": ()}, "no leader epoch"),
        ({"start_offset": -1}, "offsets -1 to 19, which no log has"),
        ({"end_offset": 2**63 - 1}, "which no log has"),
        ({"leader_epochs": ((-1, 10),)}, "leader epochs that no log has"),
        ({"leader_epochs": ((0, -1), (2, 15))}, "leader epochs that no log has"),
    ],
)
def test_metadata_that_contradicts_itself_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SEGMENT, **change)


def test_an_update_changes_state_origin_and_time_and_keeps_custom_metadata_that_it_does_not_give() -> None:
    noted = replace(SEGMENT, custom_metadata=CustomMetadata(b"place"))
    update = RemoteLogSegmentMetadataUpdate(
        segment_id=SEGMENT.segment_id,
        event_timestamp_ms=3_000,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        broker_id=2,
    )
    after = noted.with_update(update)
    assert (after.state, after.broker_id, after.event_timestamp_ms) == (update.state, 2, 3_000)
    assert after.custom_metadata == CustomMetadata(b"place")
    given = noted.with_update(replace(update, custom_metadata=CustomMetadata(b"new")))
    assert given.custom_metadata == CustomMetadata(b"new")


def test_a_draft_becomes_immutable_metadata() -> None:
    after = SEGMENT.moved(RemoteLogSegmentState.COPY_SEGMENT_FINISHED, 2, 3_000, None)
    assert type(after) is RemoteLogSegmentMetadata
    expected = replace(
        SEGMENT, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED, broker_id=2, event_timestamp_ms=3_000
    )
    assert after == expected
    assert hash(after) == hash(expected)
    assert repr(after) == repr(expected)
    with pytest.raises(FrozenInstanceError):
        after.broker_id = 3  # type: ignore[misc] # as nobody may


def test_a_draft_has_every_field_of_metadata() -> None:
    assert set(SegmentDraft.__annotations__) == {field.name for field in fields(RemoteLogSegmentMetadata)}


def test_the_newest_segment_is_that_of_the_latest_leader() -> None:
    old = replace(SEGMENT, leader_epochs=((1, 10),), end_offset=99)
    new = replace(SEGMENT, leader_epochs=((1, 10), (2, 15)))
    assert newest_segment([old, new]) is new
    assert newest_segment([]) is None
