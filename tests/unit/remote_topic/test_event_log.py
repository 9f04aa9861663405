"""The log in memory: order, several readers, silence."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from crabka.remote_topic.event_log import EventBatch, InProcessMetadataEventLog, InProcessMetadataTopic
from tests.support.async_tests import run_with, virtual_time


class Collected:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[EventBatch] = []

    def deliver(self, batch: EventBatch) -> None:
        self.batches.append(batch)

    def suspend(self, partitions: Collection[int]) -> None:
        raise AssertionError("a list in memory has no leaders")

    def start_over(self, partitions: Collection[int]) -> None:
        raise AssertionError("a list in memory keeps its history")

    def records(self, partition: int) -> list[tuple[int, bytes | None]]:
        return [record for batch in self.batches if batch.partition == partition for record in batch.records]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@run_with(virtual_time)
async def test_events_come_back_in_the_order_of_their_offsets() -> None:
    log, sink = InProcessMetadataEventLog(InProcessMetadataTopic(2)), Collected()
    log.start(sink)
    log.consume(1, 0)
    assert [await log.publish(1, b"%d" % n) for n in range(250)] == list(range(250))
    await turns()
    assert sink.records(1) == [(n, b"%d" % n) for n in range(250)]
    assert [batch.next_offset for batch in sink.batches][-1] == 250
    assert max(len(batch.records) for batch in sink.batches) <= log.BATCH_RECORDS
    await log.close()


@run_with(virtual_time)
async def test_only_what_is_consumed_is_delivered_from_where_it_was_asked_for() -> None:
    log, sink = InProcessMetadataEventLog(InProcessMetadataTopic(3)), Collected()
    log.start(sink)
    for partition in range(3):
        for number in range(4):
            await log.publish(partition, b"%d" % number)
    log.consume(0, 2)
    log.consume(1, 4)
    await turns()
    assert sink.records(0) == [(2, b"2"), (3, b"3")]
    assert sink.records(1) == sink.records(2) == []
    log.stop(0)
    log.stop(2)
    await log.publish(0, b"4")
    await turns()
    assert len(sink.records(0)) == 2
    assert await log.end_offsets([0, 2]) == {0: 5, 2: 4}
    await log.close()


@run_with(virtual_time)
async def test_logs_over_one_topic_see_the_same() -> None:
    topic = InProcessMetadataTopic(1)
    logs, sinks = [InProcessMetadataEventLog(topic) for _ in range(2)], [Collected(), Collected()]
    for log, sink in zip(logs, sinks, strict=True):
        log.start(sink)
        log.consume(0, 0)
    assert [await logs[n % 2].publish(0, b"%d" % n) for n in range(4)] == [0, 1, 2, 3]
    await turns()
    await logs[1].close()
    await logs[0].publish(0, b"4")
    await turns()
    assert len(sinks[0].records(0)) == 5
    assert sinks[1].records(0) == sinks[0].records(0)[:4]
    await logs[0].close()


@run_with(virtual_time)
async def test_a_silent_log_stores_and_delivers_later() -> None:
    log, sink = InProcessMetadataEventLog(InProcessMetadataTopic(1)), Collected()
    log.start(sink)
    log.consume(0, 0)
    log.is_delivering = False
    assert await log.publish(0, b"a") == 0
    await turns()
    assert sink.batches == []
    log.is_delivering = True
    assert log.is_delivering
    await turns()
    assert sink.records(0) == [(0, b"a")]
    await log.close()
