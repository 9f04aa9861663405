"""What followers do to logs that are in use, whose dir is slow, or that become another's in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from crabka.broker.partition.waiters import PartitionWaiters
from crabka.log.dirs.dir_writer import MAX_HELD_BYTES
from crabka.log.partition.partition_log import PartitionLog
from crabka.records.header import parse_header
from tests.support.async_tests import run_with
from tests.support.nodes.follower import FOLLOWER, FollowerWorld, follow
from tests.support.storage.small import NOW_MS, append, make_batch, read_batches


def fill(log: PartitionLog, *epochs: int) -> None:
    for epoch in epochs:
        append(log, make_batch(3), leader_epoch=epoch)


async def until(condition: Callable[[], bool]) -> None:
    """Wait in small steps of virtual time."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.0001)


@pytest.mark.parametrize("settings", [{}, {"flush_messages": "2"}])
@run_with(follow)
async def test_a_slow_dir_is_written_in_a_thread(world: FollowerWorld, /, settings: dict[str, str]) -> None:
    log = (await world.add_leader()).lead()
    fill(log, 3, 3)
    world.place({"leader": -1, "leader_epoch": 4}, **settings)
    partition = world.partition()
    partition.writer.is_slow = True
    world.learn_leader(1, 5)
    await until(lambda: partition.queue.length == 1)
    assert partition.log.next_append_offset in (0, 6)
    await until(lambda: partition.log.log_end_offset == 6)
    fill(log, 5)
    await world.settle()
    assert read_batches(partition.log) == read_batches(log)
    assert (partition.log.high_watermark, partition.queue.length) == (9, 0)
    assert partition.log.recovery_point == (9 if settings else 0)


@run_with(follow)
async def test_while_one_log_waits_for_its_dir_the_others_are_fetched(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    for index in (0, 1):
        fill(leader.lead(index), 3)
    world.place({"leader": -1}, {"leader": -1})
    first, second = world.partition(0), world.partition(1)
    async with first.queue.turn():
        world.learn_leader(1, 5, 0)
        world.learn_leader(1, 5, 1)
        await world.settle()
        assert (first.log.log_end_offset, second.log.log_end_offset) == (0, 3)
        fill(leader.logs[second.topic_id, 1], 3)
        await world.settle()
        assert second.log.log_end_offset == 6
        # What waits already is not sent again and again.
        assert len(leader.fetches) < 40
    await world.settle()
    assert first.log.log_end_offset == 3


@run_with(follow)
async def test_what_waits_for_a_slow_dir_is_bounded(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    for index in (0, 1):
        fill(leader.lead(index), 3)
    world.place({"leader": -1}, {"leader": -1})
    first, second = world.partition(0), world.partition(1)
    writer = first.writer
    writer.is_slow = True
    writer.hold(MAX_HELD_BYTES)
    async with first.queue.turn():
        world.learn_leader(1, 5, 0)
        await world.settle()
        assert (first.queue.length, writer.held_bytes) == (1, MAX_HELD_BYTES)
        assert len(leader.fetches) < 10
        writer.release(MAX_HELD_BYTES)
        await until(lambda: first.queue.length == 2)
        assert writer.held_bytes == len(make_batch(3))
    world.learn_leader(1, 5, 1)
    await world.settle()
    assert (first.log.log_end_offset, second.log.log_end_offset, writer.held_bytes) == (3, 3, 0)


@run_with(follow)
async def test_a_write_that_its_task_was_cancelled_from_is_waited_for(world: FollowerWorld, /) -> None:
    """A request of a client whose connection is lost leaves its batch in the hands of the thread."""

    log = (await world.add_leader()).lead()
    fill(log, 3, 5)
    world.place({"leader": FOLLOWER, "leader_epoch": 4})
    partition = world.partition()
    partition.writer.is_slow = True
    batch = make_batch(3)
    append = partition.queue.append(world.runtime.threads, batch, parse_header(batch), NOW_MS)
    task = asyncio.get_running_loop().create_task(append)
    await until(lambda: partition.log.is_being_written)
    task.cancel()
    await asyncio.wait([task])
    assert partition.queue.length == 0
    world.learn_leader(1, 5)
    await world.settle()
    assert read_batches(partition.log) == read_batches(log)


@run_with(follow)
async def test_an_append_of_the_next_leader_goes_behind_what_is_on_its_way(world: FollowerWorld, /) -> None:
    """This node becomes leader while a thread writes what it fetched."""

    log = (await world.add_leader()).lead()
    fill(log, 3, 3)
    world.place({"leader": -1})
    partition = world.partition()
    partition.writer.is_slow = True
    world.learn_leader(1, 5)
    await until(lambda: partition.log.next_append_offset == 6)
    world.learn_leader(FOLLOWER, 6)
    batch = make_batch(3)
    header = parse_header(batch)
    assert partition.queue.is_needed(len(batch), header)
    result = await partition.queue.append(world.runtime.threads, batch, header, NOW_MS)
    assert result.first_offset == 6
    await world.settle()
    assert partition.log.log_end_offset == 9
    assert partition.log.leader_epochs.entries == [(3, 0), (6, 6)]


@run_with(follow)
async def test_what_was_fetched_for_an_epoch_that_is_over_does_not_count(world: FollowerWorld, /) -> None:
    log = (await world.add_leader()).lead()
    fill(log, 3, 3)
    world.place({"leader": -1})
    partition = world.partition()
    async with partition.queue.turn():
        world.learn_leader(1, 5)
        await until(lambda: partition.queue.length == 2)
        world.learn_leader(-1, 6)
    await world.settle()
    assert partition.log.log_end_offset == 0


@run_with(follow)
async def test_a_cut_that_was_decided_in_an_epoch_that_is_over_does_not_happen(world: FollowerWorld, /) -> None:
    log = (await world.add_leader()).lead()
    fill(log, 3, 5)
    world.place({"leader": FOLLOWER, "leader_epoch": 4})
    partition = world.partition()
    fill(partition.log, 4, 4, 4)
    async with partition.queue.turn():
        world.learn_leader(1, 5)
        await until(lambda: partition.queue.length == 2)
        world.learn_leader(FOLLOWER, 6)
    await world.settle()
    assert partition.log.log_end_offset == 9


@run_with(follow)
async def test_an_append_waits_until_the_lowered_recovery_point_is_on_disk(world: FollowerWorld, /) -> None:
    """A node that becomes leader in the middle of a cut must not append before the checkpoint is written."""

    log = (await world.add_leader()).lead()
    fill(log, 3, 5)
    world.place({"leader": FOLLOWER, "leader_epoch": 4})
    partition = world.partition()
    fill(partition.log, 4, 4, 4)
    world.learn_leader(1, 5)
    await until(lambda: partition.log.log_end_offset == 0)
    world.learn_leader(FOLLOWER, 6)
    batch = make_batch(3)
    assert partition.queue.is_needed(len(batch), parse_header(batch))
    await world.settle()
    assert not partition.queue.is_needed(len(batch), parse_header(batch))


@run_with(follow)
async def test_many_logs_are_cut_with_few_checkpoints(world: FollowerWorld, /) -> None:
    leader = await world.add_leader()
    world.place(*[{"leader": FOLLOWER, "leader_epoch": 4}] * 20)
    for index in range(20):
        fill(leader.lead(index), 3, 5)
        fill(world.partition(index).log, 4, 4, 4)
    saved = []
    save = world.logs.save_recovery_points

    async def counted(paths: set[str]) -> None:
        saved.append(paths)
        await save(paths)

    world.fetchers._tools.changes._save_recovery_points = counted  # type: ignore[assignment]
    for index in range(20):
        world.learn_leader(1, 5, index)
    await world.settle()
    for index in range(20):
        assert read_batches(world.partition(index).log) == read_batches(leader.logs[world.partition().topic_id, index])
    assert len(saved) == 2


@run_with(follow)
async def test_who_waits_for_a_partition_is_notified_of_what_a_follower_appends(
    world: FollowerWorld, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    notified: list[int] = []

    leader = await world.add_leader()
    log = leader.lead()
    leader.high_watermark = 0
    world.place({})
    await world.settle()
    monkeypatch.setattr(PartitionWaiters, "note_followed", lambda _self, size: notified.append(size))
    fill(log, 3)
    await world.settle()
    assert notified == [len(make_batch(3))]
    leader.high_watermark = 3
    await world.settle()
    assert notified[1:] == [0]
