"""Decisions on more partitions and on the dirs of replicas."""

from __future__ import annotations

import random
import uuid

import pytest

from crabka.controller.decisions.partitions import MorePartitions, create_partitions
from crabka.metadata.records import PartitionRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster, with_topic

IMAGE = with_topic(cluster(1), "t", 2)
DIRECTORY = uuid.UUID(int=77)


def test_partitions_are_added_behind_the_present_ones() -> None:
    outcome = create_partitions(IMAGE, [MorePartitions("t", 4)], random.Random(1))
    assert [record.partition_id for record in outcome.records] == [2, 3]
    assert all(isinstance(record, PartitionRecord) for record in outcome.records)
    assert len(applied(IMAGE, outcome.records).topics.by_name["t"].partitions) == 4


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (MorePartitions("nope", 3), ErrorCode.unknown_topic_or_partition, None),
        (MorePartitions("t", 2), ErrorCode.invalid_partitions, "Topic already has 2 partition(s)."),
        (
            MorePartitions("t", 1),
            ErrorCode.invalid_partitions,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            MorePartitions("t", 10_003),
            ErrorCode.policy_violation,
            "Excessively large number of partitions per request; the limit is 10000.",
        ),
        (
            MorePartitions("t", 4, [[1]]),
            ErrorCode.invalid_replica_assignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions("t", 3, [[9]]),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
    ],
)
def test_what_cannot_grow(wanted: MorePartitions, code: ErrorCode, message: str | None) -> None:
    outcome = create_partitions(IMAGE, [wanted], random.Random(1))
    verdict = outcome.result[wanted.topic]
    assert outcome.records == []
    assert verdict.error_code is code
    if message is not None:
        assert verdict.message == message


def test_a_repeated_name_is_refused() -> None:
    outcome = create_partitions(IMAGE, [MorePartitions("t", 3), MorePartitions("t", 4)], random.Random(1))
    assert outcome.result["t"].message == "Duplicate topic name."
    assert outcome.records == []


def test_validation_alone_makes_no_records() -> None:
    outcome = create_partitions(IMAGE, [MorePartitions("t", 3)], random.Random(1), validate_only=True)
    assert (outcome.records, outcome.result["t"].error_code) == ([], ErrorCode.none)


def test_a_manual_assignment_needs_a_replica_that_can_lead() -> None:
    image = with_topic(cluster(1, 2, fenced=[2]), "t", 2)
    verdict = create_partitions(image, [MorePartitions("t", 4, [[1], [2]])], random.Random(1)).result["t"]
    assert verdict.error_code is ErrorCode.invalid_replica_assignment
    assert verdict.message == (
        "All brokers specified in the manual partition assignment for partition 3 are fenced or in controlled shutdown."
    )
