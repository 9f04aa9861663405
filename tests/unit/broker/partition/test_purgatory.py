"""Waiting requests complete exactly once, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.broker.partition.partition import RequiredOffset
from crabka.broker.partition.purgatory import Delayed, EnoughBytes, ReachedOffsets, StableBytes, deleted, replicated
from crabka.broker.partition.waiters import LEADERSHIP_LOST
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with


class LogStub:
    """The numbers that waiting requests look at."""

    high_watermark = 0
    last_stable_offset = 0


class PartitionStub:
    """A partition that only knows its waiters, and its numbers; it stands for its waiters and followers as well."""

    def __init__(self) -> None:
        self.log = LogStub()
        self.log_start_of_followers = 0
        self.is_safe = True
        self.is_leader = True
        self.waiting: set[Delayed[Any]] = set()
        self.waiters = self.followers = self

    def add(self, waiter: Delayed[Any]) -> None:
        self.waiting.add(waiter)

    def remove(self, waiter: Delayed[Any]) -> None:
        self.waiting.discard(waiter)

    def low_watermark(self) -> int:
        return self.log_start_of_followers

    def is_led_for(self, _required: RequiredOffset) -> bool:
        return self.is_leader

    def acknowledgement(self, required: RequiredOffset) -> ErrorCode | None:
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if self.log.high_watermark < required.offset:
            return None
        return ErrorCode.none if self.is_safe else ErrorCode.not_enough_replicas_after_append


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    VirtualTimeLoop().run(test())


def partitions(count: int = 1) -> list[Any]:
    return [PartitionStub() for _ in range(count)]


@run_with(in_loop)
async def test_a_fetch_completes_when_enough_bytes_came() -> None:
    first, second = both = partitions(2)
    fetch = Delayed(lambda: "read", EnoughBytes(both, 10))
    future = fetch.start(60_000)
    fetch.progressed(first, 6)
    await asyncio.sleep(1)
    assert not future.done()
    fetch.progressed(second, 4)
    assert not future.done()  # never inside the poke
    assert await future == "read"
    assert asyncio.get_running_loop().time() == 1
    assert not first.waiting
    assert not second.waiting


@run_with(in_loop)
async def test_a_fetch_completes_when_its_time_is_up() -> None:
    (partition,) = partitions()
    assert await Delayed(lambda: "late", EnoughBytes([partition], 10)).start(500) == "late"
    assert asyncio.get_running_loop().time() == 0.5
    assert not partition.waiting


@run_with(in_loop)
async def test_lost_leadership_ends_a_fetch() -> None:
    (partition,) = partitions()
    fetch = Delayed(lambda: "over", EnoughBytes([partition], 10))
    future = fetch.start(60_000)
    fetch.progressed(partition, LEADERSHIP_LOST)
    assert await future == "over"


@run_with(in_loop)
async def test_a_request_completes_once() -> None:
    (partition,) = partitions()
    completions: list[int] = []
    fetch = Delayed(lambda: completions.append(1), EnoughBytes([partition], 1))
    future = fetch.start(10)
    for _ in range(3):
        fetch.progressed(partition, 5)
    await future
    await asyncio.sleep(1)
    assert completions == [1]


@run_with(in_loop)
async def test_a_cancelled_request_stops_waiting() -> None:
    (partition,) = partitions()
    completions: list[int] = []
    future = Delayed(lambda: completions.append(1), EnoughBytes([partition], 1)).start(1000)
    future.cancel()
    await asyncio.sleep(0)
    assert not partition.waiting
    await asyncio.sleep(2)
    assert completions == []


@run_with(in_loop)
async def test_a_failed_completion_belongs_to_the_one_who_waits() -> None:
    def fail() -> str:
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        await Delayed(fail, EnoughBytes(partitions(), 1)).start(10)


@pytest.mark.parametrize("outcome", ["result", "failure", "cancel"])
@run_with(in_loop)
async def test_a_completion_may_take_its_time(outcome: str) -> None:
    later: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    delayed: Delayed[str] = Delayed(lambda: later, EnoughBytes(partitions(), 1))
    future = delayed.start(10)
    await asyncio.sleep(1)
    assert not future.done()
    if outcome == "result":
        later.set_result("cold")
        assert await future == "cold"
    elif outcome == "failure":
        later.set_exception(ValueError("torn"))
        with pytest.raises(ValueError, match="torn"):
            await future
    else:
        later.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future


@run_with(in_loop)
async def test_a_produce_waits_for_every_high_watermark() -> None:
    first, second = partitions(2)
    offsets = ReachedOffsets({first: RequiredOffset(5, 0), second: RequiredOffset(3, 0)}, replicated)
    produce = Delayed(lambda: "safe", offsets)
    future = produce.start(60_000)
    first.log.high_watermark = 4
    produce.progressed(first, 100)
    first.log.high_watermark = 5
    produce.progressed(first, 100)
    await asyncio.sleep(1)
    assert not future.done()
    second.log.high_watermark = 9
    produce.progressed(second, 100)
    assert await future == "safe"
    assert offsets.failures == {}


@run_with(in_loop)
async def test_a_produce_does_not_wait_for_a_partition_that_is_gone() -> None:
    (partition,) = partitions()
    offsets = ReachedOffsets({partition: RequiredOffset(5, 0)}, replicated)
    produce = Delayed(lambda: "told", offsets)
    future = produce.start(60_000)
    partition.is_leader = False
    produce.progressed(partition, LEADERSHIP_LOST)
    assert await future == "told"
    assert offsets.failures == {partition: ErrorCode.not_leader_or_follower}


@run_with(in_loop)
async def test_what_happened_before_the_wait_was_registered_counts() -> None:
    moved, lost = partitions(2)
    required = {moved: RequiredOffset(5, 0), lost: RequiredOffset(3, 0)}
    to_replicate, to_delete = ReachedOffsets(required, replicated), ReachedOffsets(required, deleted)
    produce = Delayed(lambda: "told", to_replicate)
    deletion = Delayed(lambda: "gone", to_delete)
    moved.log.high_watermark = moved.log_start_of_followers = 5
    lost.is_leader = False
    assert (await produce.start(60_000), await deletion.start(60_000)) == ("told", "gone")
    assert asyncio.get_running_loop().time() == 0
    assert to_replicate.failures == to_delete.failures == {lost: ErrorCode.not_leader_or_follower}
    assert not moved.waiting
    assert not lost.waiting


@run_with(in_loop)
async def test_a_produce_that_waited_in_vain_reports_where() -> None:
    first, second = partitions(2)
    offsets = ReachedOffsets({first: RequiredOffset(5, 0), second: RequiredOffset(3, 0)}, replicated)
    produce = Delayed(lambda: "late", offsets)
    future = produce.start(100)
    second.log.high_watermark = 3
    produce.progressed(second, 100)
    assert await future == "late"
    assert offsets.failures == {first: ErrorCode.request_timed_out}


@run_with(in_loop)
async def test_a_produce_that_is_not_safe_enough_in_the_end_fails() -> None:
    (partition,) = partitions()
    partition.is_safe = False
    offsets = ReachedOffsets({partition: RequiredOffset(5, 0)}, replicated)
    produce = Delayed(lambda: "told", offsets)
    future = produce.start(60_000)
    partition.log.high_watermark = 5
    produce.progressed(partition, 1)
    assert await future == "told"
    assert offsets.failures == {partition: ErrorCode.not_enough_replicas_after_append}


@run_with(in_loop)
async def test_a_follower_waits_for_appends_and_not_for_the_high_watermark() -> None:
    (partition,) = partitions()
    fetch = Delayed(lambda: "read", EnoughBytes([partition], 10, by_follower=True))
    future = fetch.start(60_000)
    assert partition.waiting == {fetch}
    fetch.progressed(partition, 0)
    fetch.progressed(partition, 9)
    await asyncio.sleep(1)
    assert not future.done()
    fetch.progressed(partition, 1)
    assert await future == "read"
    assert not partition.waiting


@run_with(in_loop)
async def test_a_follower_that_consumers_read_from_is_notified_of_the_high_watermark() -> None:
    (partition,) = partitions()
    fetch = Delayed(lambda: "read", EnoughBytes([partition], 10, by_follower=True, wants_high_watermarks=True))
    future = fetch.start(60_000)
    fetch.progressed(partition, 0)
    assert await future == "read"
    assert asyncio.get_running_loop().time() == 0


@run_with(in_loop)
async def test_a_deletion_waits_for_every_low_watermark() -> None:
    first, second = partitions(2)
    offsets = ReachedOffsets({first: RequiredOffset(5, 0), second: RequiredOffset(3, 0)}, deleted)
    deletion = Delayed(lambda: "gone", offsets)
    future = deletion.start(60_000)
    first.log_start_of_followers = 4
    deletion.progressed(first, 0)
    deletion.progressed(first, 100)
    await asyncio.sleep(1)
    assert offsets.failures == dict.fromkeys((first, second), ErrorCode.request_timed_out)
    first.log_start_of_followers = second.log_start_of_followers = 5
    deletion.progressed(first, 0)
    deletion.progressed(second, 0)
    assert await future == "gone"
    assert offsets.failures == {}


@run_with(in_loop)
async def test_a_deletion_does_not_wait_for_a_partition_that_is_gone() -> None:
    (partition,) = partitions()
    offsets = ReachedOffsets({partition: RequiredOffset(5, 0)}, deleted)
    deletion = Delayed(lambda: "told", offsets)
    future = deletion.start(60_000)
    partition.is_leader = False
    deletion.progressed(partition, LEADERSHIP_LOST)
    assert await future == "told"
    assert offsets.failures == {partition: ErrorCode.not_leader_or_follower}


@run_with(in_loop)
async def test_a_fetch_ignores_offsets_that_moved_without_bytes() -> None:
    (partition,) = partitions()
    fetch = Delayed(lambda: "late", EnoughBytes([partition], 10))
    future = fetch.start(100)
    fetch.progressed(partition, 0)
    assert await future == "late"
    assert asyncio.get_running_loop().time() == 0.1


@run_with(in_loop)
async def test_a_committed_fetch_counts_bytes_when_they_are_stable() -> None:
    (partition,) = partitions()
    fetch = Delayed(lambda: "read", StableBytes([partition], 10))
    future = fetch.start(60_000)
    fetch.progressed(partition, 100)
    await asyncio.sleep(1)
    assert not future.done()
    partition.log.last_stable_offset = 3
    fetch.progressed(partition, 0)
    assert await future == "read"
    assert asyncio.get_running_loop().time() == 1


@run_with(in_loop)
async def test_a_committed_fetch_waits_for_its_minimum() -> None:
    (partition,) = partitions()
    fetch = Delayed(lambda: "read", StableBytes([partition], 10))
    future = fetch.start(60_000)
    for stable in (1, 2):
        await asyncio.sleep(1)
        assert not future.done()
        partition.log.last_stable_offset = stable
        fetch.progressed(partition, 5)
    await asyncio.sleep(0)
    assert future.done()


@run_with(in_loop)
async def test_bytes_that_were_undecided_before_are_taken_for_enough() -> None:
    (partition,) = partitions()
    partition.log.high_watermark = 5
    fetch = Delayed(lambda: "read", StableBytes([partition], 1000))
    future = fetch.start(60_000)
    partition.log.last_stable_offset = 6
    fetch.progressed(partition, 1)
    await asyncio.sleep(0)
    assert future.done()


@run_with(in_loop)
async def test_a_committed_fetch_ends_with_the_leadership() -> None:
    (partition,) = partitions()
    fetch = Delayed(lambda: "read", StableBytes([partition], 10))
    future = fetch.start(60_000)
    fetch.progressed(partition, LEADERSHIP_LOST)
    assert await future == "read"
