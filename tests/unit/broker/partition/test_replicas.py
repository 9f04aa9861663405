"""A partition as one of its replicas: leadership, high watermark, waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.broker.partition.purgatory import DelayedFetch, DelayedProduce, DelayedReplicaFetch
from crabka.broker.partition.replicas import LEADERSHIP_LOST, RequiredOffset
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.logs import make_batch
from tests.support.replicas import EPOCH, LedPartition, replicated_image


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    VirtualTimeLoop().run(test())


class Poked:
    """A waiter that writes down how it is poked."""

    def __init__(self, *, waits_for_appends: bool = False) -> None:
        self.waits_for_appends = waits_for_appends
        self.progress: list[int] = []
        self.watermarks = 0
        self.low_watermarks = 0
        self.triggers = 0

    def progressed(self, _partition: Any, readable_bytes: int) -> None:
        self.progress.append(readable_bytes)

    def high_watermark_rose(self) -> None:
        self.watermarks += 1

    def low_watermark_rose(self, _partition: Any) -> None:
        self.low_watermarks += 1

    def trigger(self) -> None:
        self.triggers += 1


def waiting(led: LedPartition) -> tuple[Any, Any]:
    """Let a consumer and a follower wait."""
    consumer: Any = Poked()
    follower: Any = Poked(waits_for_appends=True)
    led.partition.add_waiter(consumer)
    led.partition.add_waiter(follower)
    return consumer, follower


def test_a_lone_replica_keeps_no_state_of_others() -> None:
    led = LedPartition(replicated_image(1, replicas=(1,)))
    assert led.partition.replication is None
    led.append(3)
    assert led.high_watermark == 3


def test_the_high_watermark_waits_for_the_isr() -> None:
    led = LedPartition()
    led.append(3)
    led.fetch(2, 3)
    assert led.high_watermark == 0
    led.fetch(3, 2)
    assert led.high_watermark == 2
    led.fetch(3, 3)
    assert led.high_watermark == 3


def test_an_append_alone_moves_the_high_watermark_of_a_leader_without_followers_in_sync() -> None:
    led = LedPartition(replicated_image(1))
    led.append(3)
    assert led.high_watermark == 3


def test_below_min_isr_the_high_watermark_stands_still() -> None:
    led = LedPartition(replicated_image(1), min_isr=2)
    led.append(3)
    assert led.high_watermark == 0
    with pytest.raises(OperationError) as caught:
        led.partition.require_min_isr()
    assert caught.value.error_code is ErrorCode.not_enough_replicas


def test_published_isr_lets_the_high_watermark_rise() -> None:
    led = LedPartition()
    led.append(3)
    led.fetch(2, 3)
    # Who was in sync just now is about to join again, and would be waited for.
    led.world.now_ms = 1001
    led.become(replicated_image(1, 2, partition_epoch=11))
    assert (led.high_watermark, led.partition.in_sync_count) == (3, 2)


def test_older_metadata_of_the_same_epoch_changes_nothing() -> None:
    led = LedPartition(replicated_image(1, 2, partition_epoch=11))
    led.become(replicated_image(1, 2, 3, partition_epoch=10))
    assert led.partition.in_sync_count == 2


def test_a_new_leader_keeps_the_high_watermark_it_had_as_follower() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    log = led.partition.log
    log.append_as_follower(make_batch(5, leader_epoch=4))
    log.set_high_watermark(3)
    led.become(replicated_image())
    assert led.high_watermark == 3
    replication = led.partition.replication
    assert replication is not None
    assert replication.epoch_start_offset == 5
    assert log.end_offset_for_epoch(4) == (4, 5)


def test_the_next_epoch_begins_without_knowledge_of_the_followers() -> None:
    led = LedPartition()
    _, follower = waiting(led)
    before = led.partition.replication
    led.append(3)
    led.fetch(2, 3)
    led.become(replicated_image(1, 2, leader_epoch=6, partition_epoch=11))
    assert led.partition.replication is not before
    assert led.high_watermark == 0
    # Who waits in the old epoch hears of the new one.
    assert follower.triggers == 1
    led.fetch(2, 3)
    assert led.high_watermark == 3


def test_replicas_that_are_added_to_a_lone_one_come_after_what_is_committed() -> None:
    led = LedPartition(replicated_image(1, replicas=(1,)))
    led.append(4)
    led.become(replicated_image(1, replicas=(1, 2), partition_epoch=11))
    replication = led.partition.replication
    assert replication is not None
    assert (led.high_watermark, led.partition.replica_count) == (4, 2)
    led.fetch(2, 3)
    assert led.world.proposals == []
    led.fetch(2, 4)
    assert [proposal.isr for proposal in led.world.proposals] == [(1, 2)]


def test_the_last_replica_that_is_left_is_alone_again() -> None:
    led = LedPartition(replicated_image(replicas=(1, 2)))
    consumer, follower = waiting(led)
    size = led.append(4)
    led.become(replicated_image(1, replicas=(1,), partition_epoch=11))
    assert led.partition.replication is None
    assert led.high_watermark == 4
    assert (consumer.progress, follower.progress, follower.triggers) == ([size], [size], 1)


def test_lost_leadership_answers_who_waits() -> None:
    led = LedPartition()
    consumer, follower = waiting(led)
    led.become(replicated_image(leader=2, leader_epoch=6))
    assert led.partition.replication is None
    assert consumer.progress == follower.progress == [LEADERSHIP_LOST]


def test_consumers_hear_of_bytes_when_they_are_readable_and_followers_when_they_are_there() -> None:
    led = LedPartition()
    consumer, follower = waiting(led)
    size = led.append(4)
    assert (consumer.progress, follower.progress) == ([], [size])
    led.fetch(2, 4)
    led.fetch(3, 2)
    assert consumer.progress == [size // 2]
    assert follower.watermarks == 1
    led.fetch(3, 4)
    # Nothing is lost by the estimate in between.
    assert sum(consumer.progress) == size
    assert consumer.low_watermarks == 2
    led.fetch(3, 4)
    assert follower.watermarks == 2


def test_a_rise_that_is_told_is_never_told_as_nothing() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    led.partition.log.append_as_follower(make_batch(5, leader_epoch=4))
    led.become(replicated_image())
    consumer, _ = waiting(led)
    led.fetch(2, 5)
    led.fetch(3, 1)
    led.fetch(3, 5)
    # What was there before is not counted exactly, but as enough.
    assert all(count > 0 for count in consumer.progress)
    assert sum(consumer.progress) == led.partition.log.size_bytes


def test_a_follower_tells_who_waits_of_its_progress() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    consumer, _ = waiting(led)
    batch = make_batch(4, leader_epoch=4)
    led.partition.log.append_as_follower(batch)
    led.partition.note_progress(len(batch))
    assert consumer.progress == []
    led.partition.log.set_high_watermark(4)
    led.partition.note_progress(0)
    assert consumer.progress == [len(batch)]


def test_a_truncation_begins_the_count_anew() -> None:
    led = LedPartition(replicated_image(leader=2, leader_epoch=4))
    consumer, _ = waiting(led)
    log = led.partition.log
    log.append_as_follower(make_batch(4, leader_epoch=4))
    log.set_high_watermark(4)
    led.partition.note_progress(100)
    log.truncate_to(0)
    led.partition.note_progress(0)
    log.append_as_follower(make_batch(4, leader_epoch=4))
    log.set_high_watermark(2)
    led.partition.note_progress(100)
    assert consumer.progress == [100, 50]


def test_all_waiters_are_released_and_counted() -> None:
    led = LedPartition()
    consumer, follower = waiting(led)
    assert led.partition.waiter_count == 2
    led.partition.release_waiters()
    assert consumer.triggers == follower.triggers == 1
    led.partition.remove_waiter(consumer)
    led.partition.remove_waiter(follower)
    assert led.partition.waiter_count == 0


def test_an_acknowledgement_waits_for_the_high_watermark_and_says_if_it_is_not_safe() -> None:
    led = LedPartition(min_isr=2)
    led.append(3)
    assert led.partition.acknowledgement(RequiredOffset(3, EPOCH)) is None
    led.fetch(2, 3)
    led.fetch(3, 3)
    assert led.partition.acknowledgement(RequiredOffset(3, EPOCH)) is ErrorCode.none
    led.become(replicated_image(1, partition_epoch=11))
    assert led.partition.acknowledgement(RequiredOffset(3, EPOCH)) is ErrorCode.not_enough_replicas_after_append


def test_an_acknowledgement_counts_in_its_epoch_alone() -> None:
    led = LedPartition()
    led.append(3)
    once, spanning = RequiredOffset(3, EPOCH), RequiredOffset(3, EPOCH, spans_epochs=True)
    led.become(replicated_image(leader_epoch=EPOCH + 1))
    assert led.partition.acknowledgement(once) is ErrorCode.not_leader_or_follower
    # Nobody else led: the records are still those that were appended.
    assert led.partition.acknowledgement(spanning) is None
    led.become(replicated_image(leader=2, leader_epoch=EPOCH + 2))
    assert led.partition.acknowledgement(spanning) is ErrorCode.not_leader_or_follower
    led.become(replicated_image(1, leader_epoch=EPOCH + 3))
    assert led.high_watermark == 3
    assert led.partition.acknowledgement(spanning) is ErrorCode.not_leader_or_follower
    assert not led.partition.has_led_since(EPOCH + 2)
    assert led.partition.has_led_since(EPOCH + 3)


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
    consumer: DelayedFetch[float] = DelayedFetch(loop.time, [led.partition], 1)
    follower: DelayedReplicaFetch[float] = DelayedReplicaFetch(loop.time, [led.partition], 1)
    produce: DelayedProduce[float] = DelayedProduce(loop.time, {led.partition: RequiredOffset(1, EPOCH)})
    futures = [waiter.start(60_000) for waiter in (consumer, follower, produce)]
    await asyncio.sleep(1)
    led.append()
    assert await futures[1] == 1
    await asyncio.sleep(1)
    assert not futures[0].done()
    led.fetch(2, 1)
    led.fetch(3, 1)
    assert (await futures[0], await futures[2]) == (2, 2)
    assert produce.failures == {}
    assert led.partition.waiter_count == 0


@pytest.mark.parametrize(("asked", "code"), [(4, "fenced_leader_epoch"), (6, "unknown_leader_epoch")])
def test_the_epoch_is_checked_of_a_follower_as_well(asked: int, code: str) -> None:
    led = LedPartition(replicated_image(leader=2))
    led.partition.require_epoch(-1)
    led.partition.require_epoch(5)
    with pytest.raises(OperationError) as caught:
        led.partition.require_epoch(asked)
    assert caught.value.error_code.name == code
