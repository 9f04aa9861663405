"""The remote segments of a real Kafka: the events of its metadata topic, folded, finds what its consumers read."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import pytest

from crabka.ids import uuid_from_text
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tests.support.recorded.files import GOLDEN


class GoldenTier(NamedTuple):
    expected: dict[str, Any]
    rlmm: InmemoryRemoteLogMetadataManager
    partitions: dict[str, TopicIdPartition]


@cache
def golden_tier(name: str) -> GoldenTier:
    expected = json.loads((GOLDEN / name / "expected.json").read_text())
    tier = GoldenTier(expected, InmemoryRemoteLogMetadataManager(), {})
    for segment in expected["remote_segments"]["segments"]:
        partition = TopicIdPartition(uuid_from_text(segment["topic_id"]), segment["topic"], segment["partition"])
        tier.partitions[str(partition.topic_partition)] = partition
        fold(tier.rlmm, partition, segment)
    return tier


def fold(rlmm: InmemoryRemoteLogMetadataManager, partition: TopicIdPartition, segment: dict[str, Any]) -> None:
    """Lead a segment through its history."""
    segment_id = RemoteLogSegmentId(partition, uuid_from_text(segment["segment_id"]))
    epochs = (entry.split("=") for entry in segment["leader_epochs"].split(", "))
    rlmm.add_remote_log_segment_metadata(
        RemoteLogSegmentMetadata(
            segment_id=segment_id,
            start_offset=segment["start_offset"],
            end_offset=segment["end_offset"],
            max_timestamp_ms=segment["max_timestamp"],
            broker_id=1,
            event_timestamp_ms=0,
            segment_size_bytes=segment["size"],
            leader_epochs=tuple((int(epoch), int(first)) for epoch, first in epochs),
            txn_index_empty=segment["txn_index_empty"],
        )
    )
    assert segment["history"][0] == "COPY_SEGMENT_STARTED"
    for step, state in enumerate(segment["history"][1:], start=1):
        rlmm.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(
                segment_id=segment_id, event_timestamp_ms=step, state=RemoteLogSegmentState[state], broker_id=1
            )
        )


def readable_partitions() -> list[tuple[str, str]]:
    return [
        (name, partition)
        for name in ("single", "overlap")
        for partition in golden_tier(name).partitions
        if partition != "tiered-gone-0"
    ]


@pytest.mark.parametrize(("name", "partition"), readable_partitions())
def test_every_record_up_to_the_last_tiered_offset_is_found_in_its_epoch_and_in_no_other(
    name: str, partition: str
) -> None:
    tier = golden_tier(name)
    tip = tier.partitions[partition]
    tiered = tier.expected["list_offsets"]["latest_tiered"][partition]["offset"]
    rows = tier.expected["read_uncommitted"][tip.topic][str(tip.partition)]
    assert sum(row[0] <= tiered for row in rows) > 20
    for row in rows:
        offset, epoch = row[0], row[6]
        found = tier.rlmm.remote_log_segment_metadata(tip, epoch, offset)
        assert (found is not None) == (offset <= tiered)
        assert found is None or found.start_offset <= offset <= found.end_offset
        for other in {0, 2, 4, 6} - {epoch}:
            assert tier.rlmm.remote_log_segment_metadata(tip, other, offset) is None


@pytest.mark.parametrize(("name", "partition"), readable_partitions())
def test_the_highest_offset_is_what_kafka_answers_as_latest_tiered(name: str, partition: str) -> None:
    tier = golden_tier(name)
    latest = tier.expected["list_offsets"]["latest_tiered"][partition]
    assert tier.rlmm.highest_offset_for_epoch(tier.partitions[partition], latest["leader_epoch"]) == latest["offset"]


@pytest.mark.parametrize("partition", ["tiered-retention-0", "tiered-deleterecords-0"])
def test_what_retention_or_a_user_deleted_is_not_found(partition: str) -> None:
    tier = golden_tier("single")
    tip = tier.partitions[partition]
    log_start = tier.expected["list_offsets"]["earliest"][partition]["offset"]
    (first, *_others) = tier.rlmm.list_remote_log_segments(tip)
    assert first.start_offset <= log_start <= first.end_offset
    for offset in range(first.start_offset):
        assert tier.rlmm.remote_log_segment_metadata(tip, 0, offset) is None
    assert tier.rlmm.remote_log_segment_metadata(tip, 0, log_start) == first


def test_of_a_deleted_topic_only_the_highest_offset_is_left() -> None:
    tier = golden_tier("single")
    tip = tier.partitions["tiered-gone-0"]
    assert list(tier.rlmm.list_remote_log_segments(tip)) == []
    assert tier.rlmm.remote_log_segment_metadata(tip, 0, 40) is None
    assert tier.rlmm.highest_offset_for_epoch(tip, 0) == 79


def test_segments_with_aborted_transactions_are_found_one_after_the_other() -> None:
    tier = golden_tier("single")
    tip = tier.partitions["tiered-txn-0"]
    starts = []
    offset = 0
    while (segment := tier.rlmm.next_segment_with_txn_index(tip, 0, offset)) is not None:
        starts.append(segment.start_offset)
        offset = segment.end_offset + 1
    assert starts == [12, 60]


def test_the_size_of_an_epoch_counts_segments_that_begin_or_end_in_another_one() -> None:
    tier = golden_tier("overlap")
    tip = tier.partitions["tiered-overlap-0"]
    sizes = [tier.rlmm.remote_log_size(tip, epoch) for epoch in (0, 1, 2, 4)]
    assert sizes == [3491 + 3852 + 4048, 0, 4048 + 4001, 4001]
