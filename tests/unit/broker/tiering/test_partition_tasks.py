"""Loops of a partition: when they run, what they wait for, how they fail and end."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.broker.tiering.copy.copier import CustomMetadataTooLargeError
from crabka.broker.tiering.partition_tasks import MetadataGate, PartitionTasks, RepeatedTask, TaskBackoff
from crabka.errors import InvariantError, StorageError
from crabka.remote.errors import NotReadyError, RemoteBackendError
from crabka.remote.removal_notice import new_removal_notice
from crabka.runtime.task_scope import TaskScope
from crabka.testing import VirtualTimeLoop
from crabka.testing.faulty_storage import StorageFault
from tests.support.async_tests import run_with, virtual_time
from tests.support.tiers.scene import TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import ORDERS

NOTICE = new_removal_notice(ORDERS, uuid.UUID(int=77), broker_id=9, now_ms=0)
CONFIG: Any = SimpleNamespace(
    remote_log_manager_task_interval_ms=1000,
    remote_log_manager_task_retry_backoff_ms=100,
    remote_log_manager_task_retry_backoff_max_ms=5000,
    remote_log_manager_task_retry_jitter=0.0,
)
TOOLS: Any = SimpleNamespace(config=lambda: CONFIG, runtime=SimpleNamespace(rng=random.Random(1)))


def runs_of(outcomes: list[Exception | None], seconds: float) -> tuple[list[float], list[Exception]]:
    """Return when a task ran whose runs end like this, and which failures were reported."""
    loop = VirtualTimeLoop()
    times: list[float] = []
    failures: list[Exception] = []
    remaining = list(outcomes)

    async def run_once() -> None:
        times.append(round(loop.time(), 3))
        outcome = remaining.pop(0) if remaining else None
        if outcome is not None:
            raise outcome

    async def main() -> None:
        task = RepeatedTask(TOOLS, "orders-0", on_failure=failures.append)
        running = asyncio.create_task(task.run(run_once))
        await asyncio.sleep(seconds)
        task.stop()
        await running
        assert not task.is_wanted

    loop.run(main())
    return times, failures


def test_it_runs_at_once_and_then_at_every_interval() -> None:
    assert runs_of([], 2.5) == ([0, 1, 2], [])


@pytest.mark.parametrize("error", [NotReadyError("soon"), RemoteBackendError("down"), ZeroDivisionError()])
def test_failures_make_it_come_back_early_and_then_more_rarely(error: Exception) -> None:
    assert runs_of([error] * 4, 2.8) == ([0, 0.1, 0.3, 0.7, 1.5, 2.5], [])


def test_a_success_makes_the_next_pause_after_a_failure_short_again() -> None:
    error = RemoteBackendError("down")
    assert runs_of([error, error, None, error], 1.45) == ([0, 0.1, 0.3, 1.3, 1.4], [])


def test_it_is_quiet_while_the_metadata_is_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    runs_of([NotReadyError("soon")] * 3, 2)
    assert not caplog.records
    runs_of([RemoteBackendError("down")], 2)
    assert "down" in caplog.text


def test_what_no_other_run_can_mend_ends_it() -> None:
    assert runs_of([CustomMetadataTooLargeError("129 bytes")], 5) == ([0], [])


@pytest.mark.parametrize("error", [StorageError("/d1", "dead"), InvariantError("impossible")])
def test_failures_that_concern_others_are_reported_to_them(error: Exception) -> None:
    assert runs_of([error], 5) == ([0], [error])


@run_with(virtual_time)
async def test_a_loop_that_is_stopped_ends_in_its_pause(loop: VirtualTimeLoop, /) -> None:

    async def nothing() -> None:
        return None

    scope = TaskScope()
    log: Any = None
    tasks = PartitionTasks(TOOLS, ORDERS, log, is_leader=True, leader_epoch=3, on_failure=lambda _error: None)
    await tasks.wait_ended()
    runs: list[Callable[[], Awaitable[None]]] = [nothing, nothing]
    for run_once in runs:
        tasks.start(scope.start, run_once)
    await asyncio.sleep(0.5)
    assert len(scope) == 2
    began = loop.time()
    tasks.stop()
    await tasks.wait_ended()
    assert loop.time() == began
    await scope.close()


def test_another_epoch_in_the_same_role_is_reported_once() -> None:
    log: Any = None
    reported: list[int] = []

    async def main() -> None:
        tasks = PartitionTasks(TOOLS, ORDERS, log, is_leader=True, leader_epoch=3, on_failure=lambda _error: None)
        tasks.take_epoch(4)
        tasks.on_epoch = lambda: reported.append(tasks.leader_epoch)
        for epoch in (4, 5, 5, 7):
            tasks.take_epoch(epoch)

    VirtualTimeLoop().run(main())
    assert reported == [5, 7]


def backoff(jitter: float = 0.2) -> TaskBackoff:
    config: Any = SimpleNamespace(
        remote_log_manager_task_retry_backoff_ms=500,
        remote_log_manager_task_retry_backoff_max_ms=30_000,
        remote_log_manager_task_retry_jitter=jitter,
    )
    return TaskBackoff(lambda: config, random.Random(5))


def test_pauses_double_up_to_the_longest() -> None:
    pauses = backoff(0.0)
    assert [pauses.next_ms() for _ in range(8)] == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]


def test_a_success_begins_anew() -> None:
    pauses = backoff(0.0)
    pauses.next_ms()
    pauses.next_ms()
    pauses.reset()
    assert pauses.next_ms() == 500


def test_jitter_spreads_the_pauses_within_its_share() -> None:
    firsts = []
    for seed in range(200):
        pauses = backoff()
        pauses._rng = random.Random(seed)
        firsts.append(pauses.next_ms())
    assert all(400 <= pause <= 600 for pause in firsts)
    assert min(firsts) < 420
    assert max(firsts) > 580


def test_no_pause_is_longer_than_the_longest() -> None:
    pauses = backoff()
    assert max(pauses.next_ms() for _ in range(100)) <= 30_000


class ToyMetadata:
    """Metadata that may have to be caught up with."""

    def __init__(self) -> None:
        self.is_known = True
        self.asked = 0
        self.error: Exception | None = None

    def require_ready(self, _partition: Any) -> None:
        if not self.is_known:
            raise NotReadyError("not known")

    async def catch_up(self, _partition: Any) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error


def test_a_role_begins_when_all_that_others_wrote_is_read_and_once_per_epoch() -> None:
    metadata = ToyMetadata()
    tools: Any = type("Tools", (), {"metadata": metadata})()
    gate = MetadataGate(tools, ORDERS)
    runs: list[int] = []

    async def run_once() -> None:
        await gate.catch_up()
        runs.append(metadata.asked)

    async def main() -> None:
        metadata.is_known = False
        with pytest.raises(NotReadyError):
            await run_once()
        metadata.is_known, metadata.error = True, RemoteBackendError("down")
        with pytest.raises(RemoteBackendError):
            await run_once()
        metadata.error = None
        await run_once()
        await run_once()
        gate.renew()
        await run_once()

    asyncio.run(main())
    assert runs == [2, 2, 3]


@run_with(in_scene)
async def test_a_follower_relies_on_nothing_while_a_notice_stands(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    leader.fill(3)
    follower.fill(3)
    leader.lead()
    follower.follow()
    await passes(3)
    assert follower.log.tiering.highest_remote_offset == 29
    leader.leave()
    scene.rlmm.add_remote_log_segment_metadata(NOTICE)
    await passes(2)
    assert follower.log.tiering.highest_remote_offset == -1


@run_with(in_scene)
async def test_a_leader_withdraws_the_notice_of_a_broker_that_never_committed_it(scene: TierScene, /) -> None:

    leader = scene.broker(1)
    leader.fill(3)
    leader.lead()
    await passes(3)
    scene.rlmm.add_remote_log_segment_metadata(NOTICE)
    leader.fill(1)
    await passes(3)
    scene.check_tidy()
    assert scene.finished_ranges()[-1] == (30, 39)
    assert leader.log.tiering.highest_remote_offset == 39


@run_with(in_scene)
async def test_followers_keep_their_disks_when_the_topic_is_tiered_again_before_the_tier_is_empty(
    scene: TierScene, /
) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    for broker in (leader, follower):
        broker.fill(3)
    leader.lead()
    follower.follow()
    await passes(3)
    down = scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down")))
    for broker in (leader, follower):
        broker.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True)
    await passes(3)
    for broker in (leader, follower):
        broker.set_topic(remote_storage_enable=True, remote_log_delete_on_disable=False)
    await passes(5)
    assert (leader.log.tiering.highest_remote_offset, follower.log.tiering.highest_remote_offset) == (-1, -1)
    # The leader dies, and the follower has to end the removal.
    leader.crash()
    follower.lead(1)
    await passes(5)
    assert (follower.log.tiering.highest_remote_offset, follower.log.log_start_offset) == (-1, 0)
    scene.storage.remove(down)
    await passes(60)
    scene.check_tidy()
    assert scene.finished_ranges() == [(0, 9), (10, 19), (20, 29)]
    assert follower.log.tiering.highest_remote_offset == 29


@run_with(in_scene)
async def test_a_new_epoch_in_the_same_role_takes_nothing_for_granted(scene: TierScene, /) -> None:

    leader = scene.broker(1)
    leader.fill(3)
    leader.lead()
    await passes(3)
    # Another leader, which this one notices only now, emptied the tier.
    for segment in scene.listed():
        await leader.manager._segments.remove(segment)
    await passes(3)
    assert scene.finished_ranges() == []
    leader.lead(2)
    await passes(3)
    assert scene.finished_ranges() == [(0, 9), (10, 19), (20, 29)]


@run_with(in_scene)
async def test_a_follower_learns_what_the_tier_holds_so_that_it_may_delete_it(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    leader.fill(3)
    follower.fill(2)
    follower.follow()
    await passes(2)
    assert follower.log.tiering.highest_remote_offset == -1
    leader.lead()
    await passes(3)
    # No more than it has itself.
    assert follower.log.tiering.highest_remote_offset == follower.log.log_end_offset - 1 == 24
    follower.fill(1)
    await passes(3)
    assert follower.log.tiering.highest_remote_offset == 29


@run_with(in_scene)
async def test_a_follower_believes_only_what_a_segment_proves(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    leader.fill(3)
    leader.lead()
    await passes(3)
    await leader.manager._segments.remove(scene.listed()[1])
    follower.fill(3)
    follower.follow()
    await passes(3)
    assert follower.log.tiering.highest_remote_offset == 9


@run_with(in_scene)
async def test_a_truncated_follower_forgets_what_it_thought_was_copied(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2)
    leader.fill(3)
    follower.fill(3)
    leader.lead()
    follower.follow()
    await passes(3)
    assert follower.log.tiering.highest_remote_offset == 29
    # An unclean leader has other records from 15 on.
    leader.leave()
    follower.log.truncation.truncate_to(15)
    follower.log.leader_epochs.assign(1, 15)
    follower.fill(2, leader_epoch=1)
    assert follower.log.tiering.highest_remote_offset == 14
    await passes(3)
    assert follower.log.tiering.highest_remote_offset == 14


@run_with(in_scene)
async def test_nothing_is_learned_before_the_metadata_is_known(scene: TierScene, /) -> None:

    leader, follower = scene.broker(1), scene.broker(2, is_ready=False)
    leader.fill(2)
    follower.fill(2)
    leader.lead()
    follower.follow()
    await passes(10)
    assert follower.log.tiering.highest_remote_offset == -1
    follower.metadata_is_up.set_result(None)
    await passes(40)
    assert follower.log.tiering.highest_remote_offset == 19
