"""Finding hosted partitions."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.broker.partition.partition import Partition
from crabka.broker.partition.partitions import PartitionRegistry
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import cluster, with_topic

TOPIC_ID = uuid.UUID(int=7)


class LogStub:
    """As much of a log as the registry looks at."""

    def __init__(self, log_dir: str) -> None:
        self.log_dir = log_dir


def partition(index: int = 0, *, topic: str = "t", topic_id: uuid.UUID = TOPIC_ID, log_dir: str = "/d1") -> Partition:
    log: Any = LogStub(log_dir)
    writer: Any = None
    return Partition(topic, index, topic_id, log, writer)


def registry(*partitions: Partition) -> PartitionRegistry:
    made = PartitionRegistry()
    for each in partitions:
        made.add(each)
    return made


def code(find: Any, *args: Any) -> ErrorCode:
    with pytest.raises(OperationError) as caught:
        find(*args)
    return caught.value.error_code


def test_a_partition_is_found_by_name_and_by_id() -> None:
    first, second = partition(0), partition(1)
    found = registry(first, second)
    assert found.by_name("t", 1) is second
    assert found.by_id(TOPIC_ID, 0) is first
    assert found.get("t", 1) is second
    assert found.get("t", 2) is None
    assert len(found) == 2
    assert list(found) == [first, second]


def test_what_is_missing_has_its_own_code() -> None:
    found = registry(partition(0))
    assert code(found.by_name, "x", 0) is ErrorCode.unknown_topic_or_partition
    assert code(found.by_name, "t", 9) is ErrorCode.unknown_topic_or_partition
    assert code(found.by_id, uuid.UUID(int=1), 0) is ErrorCode.unknown_topic_id
    assert code(found.by_id, None, 0) is ErrorCode.unknown_topic_id
    assert code(found.by_id, TOPIC_ID, 9) is ErrorCode.unknown_topic_or_partition


def test_the_last_partition_takes_its_topic_along() -> None:
    first, second = partition(0), partition(1)
    found = registry(first, second)
    found.remove(first)
    assert code(found.by_id, TOPIC_ID, 0) is ErrorCode.unknown_topic_or_partition
    found.remove(second)
    assert code(found.by_id, TOPIC_ID, 0) is ErrorCode.unknown_topic_id
    assert found.of_topic("t") == {}


def test_removing_an_old_partition_leaves_the_new_one() -> None:
    old, new = partition(0), partition(0)
    found = registry(old, new)
    found.remove(old)
    assert found.by_name("t", 0) is new


def test_a_failed_dir_takes_its_partitions_offline() -> None:
    lost, kept = partition(0, log_dir="/d2"), partition(1)
    found = registry(lost, kept)
    assert found.take_offline("/d2") == [lost]
    assert code(found.by_name, "t", 0) is ErrorCode.kafka_storage_error
    assert code(found.by_id, TOPIC_ID, 0) is ErrorCode.kafka_storage_error
    assert found.is_offline(TOPIC_ID, 0)
    assert found.by_name("t", 1) is kept
    found.forget_offline("t", TOPIC_ID)
    assert code(found.by_name, "t", 0) is ErrorCode.unknown_topic_or_partition


def test_a_partition_that_other_brokers_host_is_not_unknown() -> None:
    image = with_topic(cluster(2), "elsewhere", 2)
    found = PartitionRegistry(lambda: image)
    topic_id = image.topics.by_name["elsewhere"].topic_id
    assert code(found.by_name, "elsewhere", 1) is ErrorCode.not_leader_or_follower
    assert code(found.by_id, topic_id, 1) is ErrorCode.not_leader_or_follower
    assert code(found.by_name, "elsewhere", 2) is ErrorCode.unknown_topic_or_partition
    assert code(found.by_id, topic_id, 2) is ErrorCode.unknown_topic_or_partition
    assert code(found.by_name, "nowhere", 0) is ErrorCode.unknown_topic_or_partition
    assert code(found.by_id, TOPIC_ID, 0) is ErrorCode.unknown_topic_id
    assert code(found.by_id, None, 0) is ErrorCode.unknown_topic_id
