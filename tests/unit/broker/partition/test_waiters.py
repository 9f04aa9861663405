"""Requests that wait for a partition are notified of the right progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from crabka.broker.partition.partition import RequiredOffset
from crabka.broker.partition.purgatory import Delayed, EnoughBytes, ReachedOffsets, replicated
from crabka.broker.partition.waiters import LEADERSHIP_LOST
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.storage.replicas import EPOCH, LedPartition, replicated_image
from tests.support.storage.small import make_batch


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    VirtualTimeLoop().run(test())


class Poked:
    """A waiter that writes down how it is poked."""

    def __init__(self, *, waits_for_appends: bool = False) -> None:
        self.waits_for_appends = waits_for_appends
        self.progress: list[int] = []
        self.triggers = 0

    def progressed(self, _partition: Any, readable_bytes: int) -> None:
        self.progress.append(readable_bytes)

    def trigger(self) -> None:
        self.triggers += 1


def waiting(led: LedPartition) -> tuple[Any, Any]:
    """Let a consumer and a follower wait."""
    consumer: Any = Poked()
    follower: Any = Poked(waits_for_appends=True)
    led.partition.waiters.add(consumer)
    led.partition.waiters.add(follower)
    return consumer, follower


def test_the_next_epoch_begins_without_knowledge_of_the_followers() -> None:
    led = LedPartition()
    _, follower = waiting(led)
    before = led.partition.replication
    led.append(3)
    led.fetch(2, 3)
    led.become(replicated_image(1, 2, leader_epoch=6, partition_epoch=11))
    assert led.partition.replication is not before
    assert led.high_watermark == 0
    # A waiter of the old epoch is notified of the new one.
    assert follower.triggers == 1
    led.fetch(2, 3)
    assert led.high_watermark == 3


def test_the_last_replica_that_is_left_is_alone_again() -> None:
    led = LedPartition(replicated_image(replicas=(1, 2)))
    consumer, follower = waiting(led)
    size = led.append(4)
    led.become(replicated_image(1, replicas=(1,), partition_epoch=11))
    assert led.partition.replication is None
    assert led.high_watermark == 4
    assert (consumer.progress, follower.progress, follower.triggers) == ([size], [size, 0], 1)


def test_lost_leadership_answers_who_waits() -> None:
    led = LedPartition()
    consumer, follower = waiting(led)
    led.become(replicated_image(leader=2, leader_epoch=6))
    assert led.partition.replication is None
    assert consumer.progress == follower.progress == [LEADERSHIP_LOST]


def test_consumers_are_notified_of_bytes_when_they_are_readable_and_followers_when_they_are_there() -> None:
    led = LedPartition()
    consumer, follower = waiting(led)
    size = led.append(4)
    assert (consumer.progress, follower.progress) == ([], [size])
    led.fetch(2, 4)
    led.fetch(3, 2)
    assert consumer.progress == [0, size // 2, 0]
    assert follower.progress == [size, 0]
    led.fetch(3, 4)
    # Nothing is lost by the estimate in between.
    assert sum(consumer.progress) == size
    led.fetch(3, 4)
    assert follower.progress == [size, 0, 0]


def test_a_rise_that_is_reported_is_never_reported_as_nothing() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    led.partition.log.copying.append_as_follower(make_batch(5, leader_epoch=4))
    led.become(replicated_image())
    consumer, _ = waiting(led)
    led.fetch(2, 5)
    led.fetch(3, 1)
    led.fetch(3, 5)
    # What was there before is not counted exactly, but as enough.
    assert len([count for count in consumer.progress if count > 0]) == 2
    assert sum(consumer.progress) == led.partition.log.size_bytes


def test_a_follower_notifies_who_waits_of_its_progress() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    consumer, _ = waiting(led)
    batch = make_batch(4, leader_epoch=4)
    led.partition.log.copying.append_as_follower(batch)
    led.partition.waiters.note_followed(len(batch))
    assert consumer.progress == []
    led.partition.log.set_high_watermark(4)
    led.partition.waiters.note_followed(0)
    assert consumer.progress == [len(batch)]


def test_a_truncation_begins_the_count_anew() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    consumer, _ = waiting(led)
    log = led.partition.log
    log.copying.append_as_follower(make_batch(4, leader_epoch=4))
    log.set_high_watermark(4)
    led.partition.waiters.note_followed(100)
    log.truncation.truncate_to(0)
    led.partition.waiters.note_followed(0)
    log.copying.append_as_follower(make_batch(4, leader_epoch=4))
    log.set_high_watermark(2)
    led.partition.waiters.note_followed(100)
    assert consumer.progress == [100, 50]


def test_all_waiters_are_released_and_counted() -> None:
    led = LedPartition()
    consumer, follower = waiting(led)
    assert len(led.partition.waiters) == 2
    led.partition.waiters.release()
    assert consumer.triggers == follower.triggers == 1
    led.partition.waiters.remove(consumer)
    led.partition.waiters.remove(follower)
    assert len(led.partition.waiters) == 0


def test_the_end_of_an_epoch_pokes_waiters_though_this_node_leads_on() -> None:
    led = LedPartition()
    consumer, follower = waiting(led)
    led.become(replicated_image(leader_epoch=EPOCH + 1))
    assert consumer.progress == [LEADERSHIP_LOST]
    assert follower.triggers == 1


@run_with(in_loop)
async def test_real_waiters_wait_for_the_right_thing() -> None:
    led = LedPartition()
    loop = asyncio.get_running_loop()
    replication = ReachedOffsets({led.partition: RequiredOffset(1, EPOCH)}, replicated)
    consumer, follower, produce = (
        Delayed(loop.time, condition).start(60_000)
        for condition in (
            EnoughBytes([led.partition], 1),
            EnoughBytes([led.partition], 1, by_follower=True),
            replication,
        )
    )
    await asyncio.sleep(1)
    led.append()
    assert await follower == 1
    await asyncio.sleep(1)
    assert not consumer.done()
    led.fetch(2, 1)
    led.fetch(3, 1)
    assert (await consumer, await produce) == (2, 2)
    assert replication.failures == {}
    assert len(led.partition.waiters) == 0
