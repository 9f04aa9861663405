from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from crabka.broker.lifecycle.metadata_pipeline import MetadataPipeline
from crabka.errors import InvariantError
from tests.support.async_tests import real_time, run_with


class World:
    """A pipeline whose changes are numbers; work on them waits until it is released."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.slow_before: set[int] = set()
        self.slow_after: set[int] = set()
        self.release = asyncio.Event()
        self.last = 0
        self.broken: set[int] = set()
        self.tasks: list[asyncio.Task[Any]] = []
        self.pipeline = MetadataPipeline(prepare=self.prepare, finish=self.finish, spawn=self.spawn)
        self.pipeline.subscribe(cast("Any", self.deliver))

    def spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.get_running_loop().create_task(coroutine))
        return self.tasks[-1]

    def prepare(self, delta: Any, _image: Any) -> Callable[[], Awaitable[None]] | None:
        return self.work(f"prepared {delta}") if delta in self.slow_before else None

    def deliver(self, delta: int, _image: Any) -> None:
        if delta in self.broken:
            raise ValueError(f"{delta} is broken")
        self.events.append(f"delivered {delta}")
        self.last = delta

    def finish(self) -> Callable[[], Awaitable[None]] | None:
        return self.work(f"finished {self.last}") if self.last in self.slow_after else None

    def work(self, event: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            await self.release.wait()
            self.events.append(event)

        return run

    def put(self, *numbers: int) -> list[asyncio.Future[None] | None]:
        return [self.pipeline.on_metadata(cast("Any", number), cast("Any", None)) for number in numbers]


@run_with(real_time)
async def test_a_change_that_needs_no_work_is_delivered_at_once() -> None:
    world = World()
    world.pipeline.start()
    assert world.put(1, 2) == [None, None]
    assert world.events == ["delivered 1", "delivered 2"]


@run_with(real_time)
async def test_changes_wait_for_one_whose_logs_are_being_created() -> None:
    world = World()
    world.slow_before = {2}
    world.pipeline.start()
    _, second, third = world.put(1, 2, 3)
    assert second is not None
    assert third is not None
    await asyncio.sleep(0)
    assert world.events == ["delivered 1"]
    assert not second.done()
    world.release.set()
    await asyncio.gather(second, third)
    assert world.events == ["delivered 1", "prepared 2", "delivered 2", "delivered 3"]
    assert world.put(4) == [None]


@run_with(real_time)
async def test_changes_wait_for_directories_of_an_earlier_one_to_be_renamed() -> None:
    world = World()
    world.slow_after = {1}
    world.pipeline.start()
    first, second = world.put(1, 2)
    assert first is not None
    assert second is not None
    await asyncio.sleep(0)
    assert world.events == ["delivered 1"]
    world.release.set()
    await asyncio.gather(first, second)
    assert world.events == ["delivered 1", "finished 1", "delivered 2"]


@run_with(real_time)
async def test_changes_before_the_start_are_kept_without_waiting() -> None:
    """The controller of a node answers others while the broker beside it opens its partitions."""

    world = World()
    world.slow_before = {1}
    assert world.put(1, 2) == [None, None]
    assert world.events == []
    world.pipeline.start()
    (third,) = world.put(3)
    assert third is not None
    world.release.set()
    await third
    assert world.events == ["prepared 1", "delivered 1", "delivered 2", "delivered 3"]


@run_with(real_time)
async def test_a_change_of_before_the_start_that_fails_ends_the_node() -> None:
    world = World()
    world.broken = {1}
    assert world.put(1, 2) == [None, None]
    world.pipeline.start()
    with pytest.raises(InvariantError, match="1 is broken"):
        await world.tasks[0]
    await asyncio.sleep(0)
    assert world.put(3) == [None]
    assert world.events == []


@run_with(real_time)
async def test_a_stopped_broker_fails_its_waiters() -> None:
    world = World()
    world.slow_before = {1, 3}
    world.pipeline.start()
    first, second = world.put(1, 2)
    assert first is not None
    assert second is not None
    await asyncio.sleep(0)
    world.pipeline.close()
    assert world.put(3) == [None]
    await asyncio.wait([first, second])
    assert first.cancelled()
    assert second.cancelled()
    world.release.set()
    await asyncio.gather(*world.tasks)
    assert world.events == ["prepared 1"]
    assert world.put(4) == [None]


@run_with(real_time)
async def test_a_change_that_fails_is_the_last() -> None:
    world = World()
    world.slow_before, world.broken = {1}, {1}
    world.release.set()
    world.pipeline.start()
    first, second = world.put(1, 2)
    assert first is not None
    assert second is not None
    with pytest.raises(ValueError, match="1 is broken"):
        await first
    await asyncio.wait([second])
    assert second.cancelled()
    assert world.events == ["prepared 1"]


@run_with(real_time)
async def test_a_stop_answers_those_who_wait() -> None:
    world = World()
    world.slow_before = {1}
    world.pipeline.start()
    first, second = world.put(1, 2)
    assert first is not None
    assert second is not None
    await asyncio.sleep(0)
    world.tasks[0].cancel()
    await asyncio.wait([first, second])
    assert first.cancelled()
    assert second.cancelled()
