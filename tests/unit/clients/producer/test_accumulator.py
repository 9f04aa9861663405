"""Partition queues: sequences, readiness, order of retries, gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from crabka.clients.producer.accumulator import (
    PartitionQueue,
    ProducerBatch,
    ProducerIdentity,
    RecordMetadata,
    record_size,
)
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.records.builder import encode_records
from crabka.records.header import parse_header
from crabka.records.record import Headers, Record

PARTITION = TopicPartition("t", 3)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def filled_queue(loop: asyncio.AbstractEventLoop, *counts: int) -> PartitionQueue:
    queue = PartitionQueue(PARTITION, identity=ProducerIdentity(9, 1))
    for number, count in enumerate(counts):
        batch = ProducerBatch(PARTITION, created_ms=number, deadline_ms=1_000 + number)
        for index in range(count):
            batch.append(Record(0, index, None, b"%d" % number), 30, loop.create_future())
        queue.waiting.append(batch)
    return queue


def sequences(queue: PartitionQueue) -> list[int]:
    return [parse_header(queue.take(0, None).encoded or b"").base_sequence for _ in range(len(queue.waiting))]


def test_batches_carry_consecutive_sequences(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 3, 1, 2)
    assert sequences(queue) == [0, 3, 4]
    assert queue.next_sequence == 6


def test_anonymous_producer_has_no_sequences(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 2)
    queue.identity = ProducerIdentity(-1, -1)
    header = parse_header(queue.take(0, None).encoded or b"")
    assert (header.producer_id, header.base_sequence) == (-1, -1)


def test_open_batch_waits_for_linger_and_full_one_does_not(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 1)
    assert queue.ready_at_ms(50) == 50
    queue.waiting[0].is_full = True
    assert queue.ready_at_ms(50) == 0
    assert filled_queue(loop, 1, 1).ready_at_ms(50) == 0
    assert filled_queue(loop).ready_at_ms(50) is None


def test_retries_wait_for_silence_and_keep_their_order_and_bytes(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 1, 1, 1, 1)
    first, second, third = (queue.take(0, None) for _ in range(3))
    queue.settle(second, retry=True)
    assert queue.ready_at_ms(0) is None
    assert not queue.resume(77)
    queue.settle(first, retry=True)
    queue.settle(third)
    assert queue.ready_at_ms(0) is None
    assert not queue.resume(77)
    assert queue.ready_at_ms(0) == 77
    encoded = [first.encoded, second.encoded]
    assert [queue.take(0, None) for _ in range(2)] == [first, second]
    assert [first.encoded, second.encoded] == encoded
    assert sequences(queue) == [3]


def test_lost_batch_renumbers_what_follows_under_a_new_identity(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 1, 1, 1)
    first, second = queue.take(0, None), queue.take(0, None)
    queue.settle(first, lost=True)
    assert not queue.resume(0)
    queue.settle(second, retry=True)
    assert queue.resume(0)
    assert queue.identity is None
    queue.identity = ProducerIdentity(10, 0)
    assert sequences(queue) == [0, 1]


def test_expired_batches_are_removed_and_leave_a_gap_only_if_they_were_sent(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 1, 1)
    (late,) = queue.expired(1_000)
    assert late.created_ms == 0
    assert not queue.has_gap
    batch = queue.take(0, None)
    queue.settle(batch, retry=True)
    queue.resume(0)
    assert queue.expired(1_001) == [batch]
    assert queue.has_gap
    assert queue.resume(0)
    assert not queue.unsettled()


def test_deliveries_get_their_own_offsets(loop: asyncio.AbstractEventLoop) -> None:
    batch = filled_queue(loop, 3).waiting[0]
    batch.deliveries[1].cancel()
    batch.succeed(100, -1)
    assert batch.deliveries[2].result() == RecordMetadata("t", 3, 102, 2)
    assert batch.deliveries[0].result().offset == 100


def test_log_append_time_is_reported(loop: asyncio.AbstractEventLoop) -> None:
    batch = filled_queue(loop, 1).waiting[0]
    batch.succeed(-1, 5_000)
    assert batch.deliveries[0].result() == RecordMetadata("t", 3, -1, 5_000)


def test_failed_batch_fails_every_delivery(loop: asyncio.AbstractEventLoop) -> None:
    batch = filled_queue(loop, 2).waiting[0]
    batch.fail(CrabkaError("no"))
    assert all(isinstance(delivery.exception(), CrabkaError) for delivery in batch.deliveries)


@pytest.mark.parametrize("headers", [(), (("name", b"value"), ("é" * 9, None))])
def test_record_size_is_an_upper_bound(headers: Headers) -> None:
    record = Record(0, 2**40, b"k" * 200, b"v" * 70_000, headers)
    assert len(encode_records([record], 0)) <= record_size(record.key, record.value, headers)


def test_batches_of_transactions_say_so(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 1, 1)
    assert not parse_header(queue.take(0, None).encoded or b"").is_transactional
    queue.is_transactional = True
    assert parse_header(queue.take(0, None).encoded or b"").is_transactional


def test_dropping_leaves_what_is_in_flight(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 1, 1, 1)
    first, second = queue.take(0, None), queue.take(0, None)
    third = queue.waiting[0]
    queue.settle(second, retry=True)
    assert queue.drop_unsent() == [second, third]
    assert queue.unsettled() == [first]


def test_nothing_follows_the_first_batch_of_all_before_it_is_answered(loop: asyncio.AbstractEventLoop) -> None:
    queue = filled_queue(loop, 2, 1, 1)
    assert queue.may_go_to(7)
    queue.flight_node = 7
    first = queue.take(0, None)
    assert not queue.may_go_to(7)
    queue.settle(first)
    queue.take(0, None)
    assert queue.may_go_to(7)
    assert not queue.may_go_to(8)
