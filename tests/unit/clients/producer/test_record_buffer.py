from __future__ import annotations

import random
import uuid

import pytest

from crabka.clients.cluster.metadata import PartitionMetadata, TopicMetadata
from crabka.clients.producer.partitioner import partition_for_key
from crabka.clients.producer.record_buffer import RecordBuffer
from crabka.clients.producer.settings import ProducerSettings
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.records.record import Record
from tests.support.async_tests import real_time, run_with

PLACE = TopicPartition("orders", 0)
RECORD = Record(0, 5, None, b"value", ())


def new_buffer(**settings: int) -> RecordBuffer:
    return RecordBuffer(ProducerSettings(**settings), random.Random(1))  # type: ignore[arg-type]


def topic_with(leaders: dict[int, int]) -> TopicMetadata:
    partitions = {
        number: PartitionMetadata(number, leader, 0, (), (), (), ErrorCode.none) for number, leader in leaders.items()
    }
    return TopicMetadata("orders", uuid.uuid4(), is_internal=False, partitions=partitions)


@run_with(real_time)
async def test_a_batch_that_begins_or_is_full_is_news() -> None:
    buffer = new_buffer(batch_bytes=300)
    news = [buffer.append(PLACE, RECORD, 100, 7)[1] for _ in range(4)]
    # A header and two records; the third begins another batch.
    assert news == [True, False, True, False]
    first, second = buffer.queues[PLACE].waiting
    assert (first.is_full, second.is_full, len(first.records), len(second.records)) == (True, False, 2, 2)
    assert (first.created_ms, first.deadline_ms) == (7, 7 + ProducerSettings().delivery_timeout_ms)
    assert buffer.append(PLACE, RECORD, 900, 7)[1]
    assert buffer.queues[PLACE].waiting[-1].is_full


@run_with(real_time)
async def test_what_is_delivered_makes_room() -> None:
    buffer = new_buffer(buffer_bytes=250)
    assert buffer.has_room(10_000)  # alone
    buffer.append(PLACE, RECORD, 200, 0)
    assert buffer.has_room(50)
    assert not buffer.has_room(51)
    [batch] = buffer.unsettled()
    buffer.release(batch)
    assert (buffer.size_bytes, buffer.has_room(10_000)) == (0, True)


@run_with(real_time)
async def test_failing_all_notifies_everybody_and_forgets() -> None:
    buffer = new_buffer()
    deliveries = [buffer.append(TopicPartition("orders", index), RECORD, 10, 0)[0] for index in range(3)]
    buffer.fail_all(OSError("gone"))
    for delivery in deliveries:
        with pytest.raises(OSError, match="gone"):
            await delivery
    assert (buffer.queues, buffer.size_bytes, buffer.unsettled()) == ({}, 0, [])


def test_keys_decide_and_without_one_a_partition_with_a_leader_is_filled() -> None:
    leaders = {0: -1, 1: 4, 2: -1, 3: 4}
    topic = topic_with(leaders)
    buffer = new_buffer(batch_bytes=100)
    for number in range(20):
        assert buffer.choose_partition(topic, b"%d" % number, 1) == partition_for_key(b"%d" % number, 4)
    chosen = [buffer.choose_partition(topic, None, 60) for _ in range(100)]
    assert set(chosen) == {1, 3}
    assert new_buffer().choose_partition(topic_with({0: -1}), None, 1) == 0
