"""Events of the remote tier for tests: made by hand, drawn at random, or written by Apache Kafka 4.3.0."""

from __future__ import annotations

import json
import uuid
from typing import Any

from hypothesis import strategies as st

from crabka.records.record import decode_records
from crabka.remote.segments import (
    LAST_OFFSET,
    CustomMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from tests.support.recorded.batches import batches_in
from tests.support.recorded.files import GOLDEN

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETE_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_CUSTOM = st.none() | st.builds(CustomMetadata, st.binary(max_size=200))
_PARTITIONS = st.builds(TopicIdPartition, st.uuids(), st.text(max_size=150), _INT32)
_SEGMENT_IDS = st.builds(RemoteLogSegmentId, _PARTITIONS, st.uuids())
_OFFSETS = st.integers(0, LAST_OFFSET)
_EPOCHS = st.dictionaries(st.integers(0, 2**31 - 1), _OFFSETS, min_size=1, max_size=150).map(
    lambda epochs: tuple(sorted(epochs.items()))
)


def partition_named(topic: str, partition: int = 0) -> TopicIdPartition:
    """Return a partition of a topic whose id follows from its name."""
    return TopicIdPartition(uuid.uuid5(uuid.NAMESPACE_DNS, topic), topic, partition)


@st.composite
def segments(draw: st.DrawFn) -> RemoteLogSegmentMetadata:
    """Any segment of a log."""
    start, end = sorted((draw(_OFFSETS), draw(_OFFSETS)))
    return RemoteLogSegmentMetadata(
        segment_id=draw(_SEGMENT_IDS),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=draw(_INT64),
        broker_id=draw(_INT32),
        event_timestamp_ms=draw(_INT64),
        segment_size_bytes=draw(st.integers(0, 2**31 - 1)),
        leader_epochs=draw(_EPOCHS),
        state=draw(st.sampled_from(RemoteLogSegmentState)),
        custom_metadata=draw(_CUSTOM),
        txn_index_empty=draw(st.booleans()),
    )


def updates() -> st.SearchStrategy[RemoteLogSegmentMetadataUpdate]:
    """Any step of a segment."""
    return st.builds(
        RemoteLogSegmentMetadataUpdate,
        segment_id=_SEGMENT_IDS,
        event_timestamp_ms=_INT64,
        state=st.sampled_from(RemoteLogSegmentState),
        broker_id=_INT32,
        custom_metadata=_CUSTOM,
    )


def partition_deletes() -> st.SearchStrategy[RemotePartitionDeleteMetadata]:
    """Any step in the deletion of a partition."""
    return st.builds(
        RemotePartitionDeleteMetadata,
        topic_id_partition=_PARTITIONS,
        state=st.sampled_from(RemotePartitionDeleteState),
        event_timestamp_ms=_INT64,
        broker_id=_INT32,
    )


def golden_event_values(node: str) -> dict[int, list[tuple[int, bytes]]]:
    """Return (offset, value) of the records in each partition of a golden node's metadata topic."""
    found: dict[int, list[tuple[int, bytes]]] = {}
    for path in sorted((GOLDEN / node).glob("d?/__remote_log_metadata-*/*.log")):
        values = found.setdefault(int(path.parent.name.rpartition("-")[2]), [])
        for batch in batches_in(path.read_bytes()):
            values += [(record.offset, record.value or b"") for record in decode_records(batch)]
    assert found, f"no golden metadata topic in {node}"
    return found


def golden_segments(node: str) -> list[dict[str, Any]]:
    """Return the segments that a reader of a golden node's metadata topic must find, with their histories."""
    expected = json.loads((GOLDEN / node / "expected.json").read_text(encoding="utf-8"))
    segments: list[dict[str, Any]] = expected["remote_segments"]["segments"]
    return segments
