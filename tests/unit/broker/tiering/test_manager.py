"""The life of a broker's tiering: roles that change, settings that change, deleted topics, start and stop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from crabka.broker.tiering.manager import CLOSING_MS
from crabka.broker.tiering.stats import REMOTE_COPY_LAG_BYTES
from crabka.errors import InvariantError, StorageError
from crabka.log.partition.tiering import LogTiering
from crabka.remote.errors import RemoteBackendError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager, PartitionDump, RlmmCacheDump
from crabka.remote.segments import RemoteLogSegmentMetadata
from crabka.testing.faulty_storage import StorageFault
from tests.support.async_tests import run_with
from tests.support.tiers.scene import GRACE_MS, SEGMENT_RECORDS, TierBroker, TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import ORDERS, STARTED


@run_with(in_scene)
async def test_leadership_that_moves_back_and_forth_copies_everything_once(scene: TierScene, /) -> None:

    brokers = [scene.broker(1), scene.broker(2)]
    for epoch in range(6):
        leader, follower = brokers[epoch % 2], brokers[1 - epoch % 2]
        follower.follow()
        leader.lead(epoch)
        for broker in brokers:
            broker.log.leader_epochs.assign(epoch, broker.log.log_end_offset)
            broker.fill(1, leader_epoch=epoch)
        await passes(3)
    scene.check_tidy()
    ends = [end for _, end in scene.finished_ranges()]
    assert ends == sorted(set(ends))
    assert all(broker.log.tiering.highest_remote_offset >= ends[-2] for broker in brokers)


@run_with(in_scene)
async def test_the_same_role_again_changes_nothing(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(1)
    broker.lead()
    await passes(2)
    hosted = dict(broker.manager._hosted)
    broker.lead(1)
    assert broker.manager._hosted == hosted


@run_with(in_scene)
async def test_a_topic_that_is_not_tiered_costs_nothing(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.partition.is_leader = True
    broker.set_topic(remote_storage_enable=False)
    broker.fill(3)
    await passes(10)
    assert broker.manager._hosted == {}
    assert (scene.storage.calls, scene.rlmm.partitions()) == ([], [])


@run_with(in_scene)
async def test_a_deleted_topic_leaves_nothing_and_is_marked_first(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    broker.leave(is_deleted=True)
    await passes(5)
    assert (scene.rlmm.partitions(), scene.store.segment_ids()) == ([], [])
    steps = [name for name in broker.failpoints.reached if name.startswith("delete")]
    assert steps[:3] == [
        "delete_partition.before_marked",
        "delete_partition.after_marked",
        "delete_partition.after_started",
    ]
    assert broker.stats.gauge(REMOTE_COPY_LAG_BYTES, ORDERS.topic_partition) is None


@run_with(in_scene)
async def test_a_deletion_goes_on_until_the_store_works(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    broker.lead()
    await passes(3)
    down = scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down")))
    broker.leave(is_deleted=True)
    await passes(100)
    assert len(scene.store.segment_ids()) == 2
    scene.storage.remove(down)
    await passes(40)
    assert (scene.rlmm.partitions(), scene.store.segment_ids()) == ([], [])


@run_with(in_scene)
async def test_an_upload_on_its_way_when_the_topic_is_deleted_leaves_nothing(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    scene.storage.add(
        StorageFault(
            operation="copy_log_segment_data", before=lambda *_: broker.leave(is_deleted=True), skip=1, times=1
        )
    )
    broker.lead()
    await passes(10)
    assert (scene.rlmm.partitions(), scene.store.segment_ids()) == ([], [])


@run_with(in_scene)
async def test_a_replica_that_moves_elsewhere_takes_nothing_along(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    broker.lead()
    await passes(3)
    broker.leave()
    broker.leave()
    await passes(10)
    assert len(scene.finished_ranges()) == 2


@run_with(in_scene)
async def test_disabling_with_deletion_empties_the_tier_and_the_log_begins_locally(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    broker.log.retention._drop_first(2, 0)
    broker.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True)
    await passes(5)
    assert (scene.listed(), scene.store.segment_ids()) == ([], [])
    assert (broker.log.log_start_offset, scene.saved_starts[1]) == (20, 20)
    # It may be enabled again; what was removed and is still local is copied again.
    broker.set_topic(remote_storage_enable=True, remote_log_delete_on_disable=False)
    await passes(5)
    assert scene.finished_ranges() == [(20, 29)]
    assert broker.log.tiering.highest_remote_offset == 29


@run_with(in_scene)
async def test_disabling_without_deletion_leaves_the_tier_alone(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    broker.lead()
    await passes(3)
    broker.set_topic(remote_storage_enable=False)
    broker.fill(1)
    await passes(10)
    assert len(scene.finished_ranges()) == 2


@run_with(in_scene)
async def test_the_next_leader_finishes_what_a_disabling_began(scene: TierScene, /) -> None:

    first, second = scene.broker(1), scene.broker(2)
    first.fill(3)
    second.fill(3)
    first.lead()
    second.follow()
    await passes(3)
    first.failpoints.place = "delete.after_data"
    second.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True)
    first.set_topic()
    await passes(3)
    assert first.is_dead
    # Three segments, and the notice that they go.
    assert len(scene.listed()) == 4
    second.lead(1)
    await passes(5)
    assert (scene.listed(), scene.store.segment_ids()) == ([], [])


@run_with(in_scene)
async def test_enabling_again_waits_for_the_end_of_the_removal(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    down = scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down")))
    broker.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True)
    await passes(5)
    broker.set_topic(remote_storage_enable=True, remote_log_delete_on_disable=False)
    await passes(5)
    # Nothing that is about to go counts as copied.
    assert broker.log.tiering.highest_remote_offset == -1
    scene.storage.remove(down)
    await passes(60)
    scene.check_tidy()
    assert scene.finished_ranges() == [(0, 9), (10, 19), (20, 29)]


# -- stop --------------------------------------------------------------------------------------------------------------


def slow_uploads(broker: TierBroker, seconds: float) -> None:
    """Let the answer of an upload take its time."""
    threads: Any = broker.threads
    submit = threads.submit

    async def late(future: asyncio.Future[Any]) -> Any:
        result = await future
        await asyncio.sleep(seconds)
        return result

    def held(fn: Any, *args: Any, **kwargs: Any) -> Any:
        future = submit(fn, *args, **kwargs)
        return asyncio.ensure_future(late(future)) if fn.__name__ == "copy_log_segment_data" else future

    threads.submit = held


@run_with(in_scene)
async def test_a_stop_waits_for_an_upload_that_is_almost_done(scene: TierScene, /) -> None:

    broker = scene.broker()
    slow_uploads(broker, CLOSING_MS / 1000 - 1)
    broker.fill(3)
    broker.lead()
    await passes(0.5)
    await broker.manager.close()
    assert scene.finished_ranges() == [(0, SEGMENT_RECORDS - 1)]
    scene.check_tidy()


@run_with(in_scene)
async def test_a_stop_abandons_an_upload_that_takes_too_long_and_the_next_run_removes_it(scene: TierScene, /) -> None:

    broker = scene.broker()
    slow_uploads(broker, 1000)
    broker.fill(1)
    broker.lead()
    await passes(0.5)
    began = scene.loop.time()
    await broker.manager.close()
    assert scene.loop.time() - began <= CLOSING_MS / 1000 + 0.1
    assert [state for _, _, state in scene.states()] == [STARTED]
    broker.is_dead = True
    heir = scene.broker()
    heir.lead(1)
    await passes(2 * GRACE_MS / 1000 + 5)
    scene.check_tidy()
    assert scene.finished_ranges() == [(0, SEGMENT_RECORDS - 1)]


@run_with(in_scene)
async def test_a_stop_before_the_metadata_was_ever_known_is_quick(scene: TierScene, /) -> None:

    broker = scene.broker(is_ready=False)
    broker.fill(1)
    broker.lead()
    await passes(1)
    began = scene.loop.time()
    await broker.manager.close()
    assert scene.loop.time() - began < 0.1
    broker.is_dead = True


@run_with(in_scene)
async def test_a_broker_without_successors_sends_nothing_and_stops_at_once(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    broker.lead()
    await passes(2)
    silence = asyncio.Event()
    metadata: Any = broker.manager.tools.metadata
    # The metadata topic has no leader any more.
    metadata.catch_up = lambda _partition: silence.wait()
    broker.manager.retire()
    broker.follow()
    await passes(1)
    began = scene.loop.time()
    await broker.manager.close()
    assert scene.loop.time() - began < 0.1
    scene.check_tidy()
    broker.is_dead = True


@pytest.mark.parametrize("error", [StorageError("/b1", "dead"), InvariantError("impossible")])
@run_with(in_scene)
async def test_failures_that_concern_the_node_are_reported_to_it(
    scene: TierScene, /, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    broker = scene.broker()

    def fail(*_arguments: object) -> None:
        raise error

    monkeypatch.setattr(LogTiering, "tierable_segments", fail)
    broker.fill(1)
    broker.lead()
    await passes(2)
    assert broker.failures == [error]
    broker.failures.clear()


def test_a_start_of_the_metadata_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    scene = TierScene()

    async def main() -> None:
        broker = scene.broker(is_ready=False)
        broker.metadata_is_up.set_exception(RemoteBackendError("no such topic"))
        await passes(1)
        assert not broker.failures

    with caplog.at_level(logging.ERROR):
        scene.run(main())
    assert "A task of the remote tier failed" in caplog.text


@run_with(in_scene)
async def test_nothing_goes_by_metadata_that_another_history_revoked(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.set_topic(local_retention_bytes=0, retention_ms=-1)
    broker.fill(3)
    broker.lead()
    await passes(3)
    log, now_ms = broker.log, scene.clock.now_ms()
    assert log.tiering.highest_remote_offset == 3 * SEGMENT_RECORDS - 1
    assert log.retention.may_drop_tiered(now_ms)
    metadata = broker.shared_metadata
    metadata.shared = None
    metadata.doubt()
    assert not log.retention.may_drop_tiered(now_ms)
    await passes(3)
    assert not log.retention.may_drop_tiered(now_ms)
    # The leader of the metadata topic never received the copies.
    scene.rlmm = InmemoryRemoteLogMetadataManager()
    metadata.shared = scene.rlmm
    scene.storage.add(StorageFault(operation="copy_log_segment_data", error=RemoteBackendError("down")))
    await passes(30)
    assert log.tiering.highest_remote_offset == -1
    assert not log.retention.may_drop_tiered(now_ms)


@run_with(in_scene)
async def test_a_doubt_during_a_copy_keeps_its_end_from_being_taken_for_all(
    scene: TierScene, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With up to where the tier holds all at that moment.
    noted: list[tuple[int, int]] = []

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    note = LogTiering.note_remote_offset

    def check(log: LogTiering, offset: int) -> None:
        ends = dict(scene.finished_ranges())
        end = 0
        while end in ends:
            end = ends[end] + 1
        noted.append((offset, end - 1))
        note(log, offset)

    monkeypatch.setattr(LogTiering, "note_remote_offset", check)
    metadata = broker.shared_metadata

    def forget(_operation: str, _segment: RemoteLogSegmentMetadata) -> None:
        """Lose what was noted of two of three segments while the fourth is on its way."""
        kept = (scene.listed()[0], scene.listed()[-1])
        metadata.shared = None
        metadata.doubt()
        scene.rlmm = InmemoryRemoteLogMetadataManager()
        scene.rlmm.load(RlmmCacheDump((PartitionDump(topic_id_partition=ORDERS, segments=kept),)))
        metadata.shared = scene.rlmm

    scene.storage.add(StorageFault(operation="copy_log_segment_data", after=forget, times=1))
    broker.fill(1)
    await passes(10)
    assert [offset for offset, limit in noted if offset > limit] == []
    assert noted[-1][0] == 4 * SEGMENT_RECORDS - 1
