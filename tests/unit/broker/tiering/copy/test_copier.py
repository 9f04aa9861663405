"""Copying segments of a led partition: real logs, a tier in memory, virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.tiering.copy.copier import note_copied_offset
from crabka.broker.tiering.copy.plan import lineage_of
from crabka.broker.tiering.stats import (
    REMOTE_COPY_BYTES,
    REMOTE_COPY_ERRORS,
    REMOTE_COPY_LAG_BYTES,
    REMOTE_COPY_LAG_SEGMENTS,
    REMOTE_COPY_REQUESTS,
)
from crabka.formats.checkpoints import decode_epochs
from crabka.log.partition.tiering import LogTiering
from crabka.remote.errors import NotReadyError, RemoteBackendError
from crabka.remote.segments import (
    CustomMetadata,
    IndexType,
    LogSegmentData,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from crabka.testing.faulty_storage import StorageFault
from crabka.testing.memory_storage import InmemoryRemoteStorage
from tests.support.async_tests import run_with
from tests.support.storage.small import ProducerFields, make_batch
from tests.support.tiers.scene import (
    BATCH_RECORDS,
    GRACE_MS,
    SEGMENT_BYTES,
    SEGMENT_RECORDS,
    TierScene,
    in_scene,
    passes,
)
from tests.support.tiers.segment_metadata import DELETING, FINISHED, ORDERS, STARTED, remote_segment


def ranges(count: int, first: int = 0) -> list[tuple[int, int]]:
    return [(SEGMENT_RECORDS * i, SEGMENT_RECORDS * (i + 1) - 1) for i in range(first, count)]


@run_with(in_scene)
async def test_sealed_segments_are_copied_and_the_log_is_notified(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(2)
    assert scene.finished_ranges() == ranges(3)
    assert broker.log.tiering.highest_remote_offset == 29
    scene.check_tidy()
    broker.fill(2)
    await passes(2)
    assert scene.finished_ranges() == ranges(5)


@run_with(in_scene)
async def test_all_that_belongs_to_a_segment_goes_with_it(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(1)
    broker.log.leader_epochs.assign(3, broker.log.log_end_offset)
    broker.fill(1, leader_epoch=3)
    broker.lead(3)
    await passes(2)
    first, second = scene.listed()
    assert (first.leader_epochs, second.leader_epochs) == (((0, 0),), ((0, 10), (3, 15)))
    assert first.max_timestamp_ms > 0
    assert (first.broker_id, first.segment_size_bytes, first.txn_index_empty) == (1, SEGMENT_BYTES, True)
    assert len(scene.store.fetch_log_segment(second, 0)) == SEGMENT_BYTES
    epochs = decode_epochs(scene.store.fetch_index(second, IndexType.LEADER_EPOCH))
    assert epochs == [(0, 0), (3, 15)]
    for index in (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.PRODUCER_SNAPSHOT):
        assert scene.store.fetch_index(first, index) is not None


@run_with(in_scene)
async def test_nothing_above_the_high_watermark_is_copied(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.log.state.high_watermark = 19
    broker.lead()
    await passes(2)
    assert scene.finished_ranges() == ranges(1)
    broker.log.set_high_watermark(20)
    await passes(2)
    assert scene.finished_ranges() == ranges(2)


@run_with(in_scene)
async def test_nothing_of_an_open_transaction_is_copied(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(1)
    open_batch = make_batch(
        BATCH_RECORDS,
        value_bytes=100,
        producer=ProducerFields(7),
        transactional=True,
        timestamp=scene.clock.now_ms(),
    )
    broker.log.append_as_leader(open_batch, leader_epoch=0, now_ms=scene.clock.now_ms())
    broker.fill(2)
    assert broker.log.last_stable_offset == 15
    broker.lead()
    await passes(3)
    assert scene.finished_ranges() == ranges(1)


@run_with(in_scene)
async def test_nothing_is_copied_that_a_crash_could_take(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    broker.flush_fails = True
    broker.lead()
    await passes(3)
    assert scene.listed() == []
    broker.flush_fails = False
    await passes(3)
    assert scene.finished_ranges() == ranges(2)


@run_with(in_scene)
async def test_followers_copy_nothing(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.follow()
    await passes(5)
    assert scene.listed() == []


@run_with(in_scene)
async def test_what_another_leader_copied_is_not_copied_again(scene: TierScene, /) -> None:

    first, second = scene.broker(1), scene.broker(2)
    first.fill(2)
    second.fill(3)
    first.lead()
    await passes(2)
    first.follow()
    second.lead(1)
    await passes(2)
    assert scene.finished_ranges() == ranges(3)
    assert [each.broker_id for each in scene.listed()] == [1, 1, 2]


@run_with(in_scene)
async def test_a_segment_that_was_rewritten_after_a_truncation_is_copied_again(scene: TierScene, /) -> None:
    # Defect of a choice by base offset: the rewritten segment has the same one.

    old, new = scene.broker(1), scene.broker(2)
    old.fill(3)
    old.lead()
    await passes(2)
    old.leave()
    # An unclean election: the new leader has only the first 15 records, and others from there on.
    for _ in range(3):
        new.append()
    new.log.leader_epochs.assign(1, 15)
    new.fill(3, leader_epoch=1)
    new.lead(1)
    await passes(2)
    mine = [each for each in scene.listed() if each.broker_id == 2]
    assert [(each.start_offset, each.end_offset) for each in mine] == ranges(4, 1)
    assert mine[0].leader_epochs == ((0, 10), (1, 15))
    found = scene.rlmm.remote_log_segment_metadata(ORDERS, 1, 17)
    assert found is not None
    assert found.broker_id == 2


@run_with(in_scene)
async def test_a_copy_that_fails_leaves_nothing_and_is_tried_again(scene: TierScene, /) -> None:

    broker = scene.broker()
    fault = scene.storage.add(StorageFault(operation="copy_log_segment_data", partial=True))
    broker.fill(2)
    broker.lead()
    await passes(2)
    assert fault.fired_count > 1
    assert (scene.listed(), scene.store.segment_ids()) == ([], [])
    assert broker.log.tiering.highest_remote_offset == -1
    assert broker.stats.counter(REMOTE_COPY_ERRORS, "orders") == fault.fired_count
    scene.storage.remove(fault)
    await passes(40)
    assert scene.finished_ranges() == ranges(2)
    scene.check_tidy()


@run_with(in_scene)
async def test_a_later_segment_does_not_overtake_one_that_fails(scene: TierScene, /) -> None:

    broker = scene.broker()
    scene.storage.add(
        StorageFault(
            operation="copy_log_segment_data",
            wants=lambda segment: segment.start_offset == 10,
            error=RemoteBackendError("full"),
        )
    )
    broker.fill(4)
    broker.lead()
    await passes(60)
    assert scene.finished_ranges() == ranges(1)


@run_with(in_scene)
async def test_what_cannot_even_be_cleaned_up_goes_later(scene: TierScene, /) -> None:

    broker = scene.broker()
    scene.storage.add(StorageFault(operation="copy_log_segment_data", partial=True, times=1))
    stuck = scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down")))
    broker.fill(1)
    broker.lead()
    await passes(3)
    assert sorted(state for _, _, state in scene.states()) == [FINISHED, DELETING]
    scene.storage.remove(stuck)
    await passes(60)
    scene.check_tidy()
    assert scene.finished_ranges() == ranges(1)


@run_with(in_scene, wants_custom_metadata=True)
async def test_custom_metadata_are_kept(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(1)
    broker.lead()
    await passes(2)
    (segment,) = scene.listed()
    assert segment.custom_metadata is not None
    # The storage refuses calls that do not echo them.
    assert len(scene.store.fetch_log_segment(segment, 0)) == SEGMENT_BYTES
    assert scene.records_in_tier(0, 10) == [4, 9]


class Talkative(InmemoryRemoteStorage):
    """Wants more noted than is allowed, and remembers what it received when it deleted."""

    echoed: CustomMetadata | None = None

    def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> CustomMetadata:
        super().copy_log_segment_data(metadata, data)
        return CustomMetadata(bytes(129))

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.echoed = metadata.custom_metadata
        super().delete_log_segment_data(metadata)


def test_custom_metadata_that_are_too_large_end_copying_and_are_not_stored(caplog: pytest.LogCaptureFixture) -> None:
    scene = TierScene()
    store = Talkative(scene.fs)
    scene.storage.inner = store

    async def main() -> None:
        broker = scene.broker()
        broker.fill(3)
        broker.lead()
        await passes(60)
        assert (scene.listed(), store.segment_ids()) == ([], [])
        assert store.echoed == CustomMetadata(bytes(129))
        assert broker.stats.counter(REMOTE_COPY_REQUESTS) == 1
        # A new leadership tries again.
        broker.follow()
        broker.lead(1)
        await passes(60)
        assert broker.stats.counter(REMOTE_COPY_REQUESTS) == 2

    scene.run(main())
    assert "129 bytes" in caplog.text


@run_with(in_scene)
async def test_the_end_of_an_upload_that_another_leader_gave_up_is_refused_and_removed(scene: TierScene, /) -> None:

    zombie, heir = scene.broker(1), scene.broker(2)
    zombie.fill(1)
    heir.fill(1)
    paused = asyncio.get_running_loop().create_future()
    submit: Any = zombie.threads.submit

    async def late(future: asyncio.Future[Any]) -> Any:
        result = await future
        await paused
        return result

    def hold(fn: Any, *args: Any, **kwargs: Any) -> Any:
        future = submit(fn, *args, **kwargs)
        return asyncio.ensure_future(late(future)) if fn.__name__ == "copy_log_segment_data" else future

    threads: Any = zombie.threads
    threads.submit = hold
    zombie.lead()
    await passes(1)
    assert [state for _, _, state in scene.states()] == [STARTED]
    # It stands still and does not notice the new leader, which waits for the grace period.
    heir.lead(1)
    await passes(GRACE_MS / 1000 - 2)
    assert sorted(state for _, _, state in scene.states()) == [STARTED, FINISHED]
    await passes(10)
    assert sorted(state for _, _, state in scene.states()) == [FINISHED, DELETING]
    paused.set_result(None)
    await passes(GRACE_MS / 1000)
    scene.check_tidy()
    assert [each.broker_id for each in scene.listed()] == [2]
    assert zombie.stats.counter(REMOTE_COPY_BYTES) == 0


@run_with(in_scene)
async def test_nothing_happens_before_the_metadata_of_the_tier_is_known(scene: TierScene, /) -> None:

    broker = scene.broker(is_ready=False)
    broker.fill(2)
    broker.lead()
    await passes(60)
    assert (scene.storage.calls, scene.listed()) == ([], [])
    assert not broker.manager.is_ready
    assert broker.stats.counter(REMOTE_COPY_ERRORS) == 0
    broker.metadata_is_up.set_result(None)
    await passes(40)
    assert broker.manager.is_ready
    assert scene.finished_ranges() == ranges(2)


@run_with(in_scene)
async def test_copying_may_be_disabled_while_the_rest_goes_on(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(1)
    broker.lead()
    await passes(2)
    broker.set_topic(remote_log_copy_disable=True)
    broker.fill(2)
    await passes(5)
    assert scene.finished_ranges() == ranges(1)
    broker.set_topic(remote_log_copy_disable=False)
    await passes(5)
    assert scene.finished_ranges() == ranges(3)


@run_with(
    in_scene,
    settings={
        "remote.log.manager.copy.max.bytes.per.second": str(SEGMENT_BYTES // 10 + 1),
        "remote.log.manager.copy.quota.window.num": "10",
    },
)
async def test_the_quota_spreads_copies_over_time(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(6)
    broker.lead()
    await passes(5)
    # A window of ten seconds has room for one, and is exceeded by one.
    assert scene.finished_ranges() == ranges(2)
    await passes(10)
    assert scene.finished_ranges() == ranges(4)
    await passes(10)
    assert scene.finished_ranges() == ranges(6)


@run_with(in_scene)
async def test_the_lag_is_reported_while_a_partition_is_led(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    fault = scene.storage.add(StorageFault(operation="copy_log_segment_data", error=RemoteBackendError("down")))
    broker.lead()
    await passes(1)
    name = ORDERS.topic_partition
    assert broker.stats.gauge(REMOTE_COPY_LAG_SEGMENTS, name) == 3
    assert broker.stats.gauge(REMOTE_COPY_LAG_BYTES, name) == 3 * SEGMENT_BYTES
    scene.storage.remove(fault)
    await passes(60)
    assert broker.stats.gauge(REMOTE_COPY_LAG_SEGMENTS, name) == 0
    assert broker.stats.counter(REMOTE_COPY_BYTES, "orders") == 3 * SEGMENT_BYTES
    broker.follow()
    assert broker.stats.gauge(REMOTE_COPY_LAG_SEGMENTS, name) is None


@run_with(in_scene)
async def test_a_new_leader_begins_where_the_tier_begins(scene: TierScene, /) -> None:

    old, new = scene.broker(1), scene.broker(2)
    old.fill(3)
    old.lead()
    await passes(2)
    # It let the oldest segment expire, which the other broker never received.
    oldest = scene.listed()[0]
    await old.manager._segments.remove(oldest)
    old.leave()
    new.fill(3)
    # Its own disk has lost the first two segments to local retention.
    new.log.tiering.note_remote_offset(19)
    for _ in range(2):
        new.log.retention._drop_first(1, 0)
    assert (new.log.log_start_offset, new.log.local_log_start_offset) == (0, 20)
    new.lead(1)
    await passes(2)
    assert new.log.log_start_offset == 10
    assert scene.saved_starts[2] == 10


@run_with(in_scene)
async def test_a_leader_follows_when_its_predecessor_removes_what_its_log_starts_with(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(2)
    broker.log.retention._drop_first(2, 0)
    assert (broker.log.log_start_offset, broker.log.local_log_start_offset) == (0, 20)
    # A leader that did not know of this one yet had a higher log start.
    await broker.manager._segments.remove(scene.listed()[0])
    await passes(2)
    assert (broker.log.log_start_offset, scene.saved_starts[1]) == (10, 10)


@run_with(in_scene)
async def test_a_highest_offset_that_a_deleted_segment_left_does_not_keep_records_from_being_copied(
    scene: TierScene, /
) -> None:
    # The late news of an upload that is being given up: finished for a moment, then deleted.

    broker = scene.broker()
    broker.fill(2)
    ghost = remote_segment(0, 9, state=STARTED, broker_id=9)
    scene.rlmm.add_remote_log_segment_metadata(ghost)
    for state in (FINISHED, DELETING):
        scene.rlmm.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(segment_id=ghost.segment_id, event_timestamp_ms=0, state=state, broker_id=9)
        )
    assert scene.rlmm.highest_offset_for_epoch(ORDERS, 0) == 9
    broker.lead()
    await passes(5)
    assert scene.finished_ranges() == ranges(2)
    await passes(GRACE_MS / 1000)
    scene.check_tidy()


@run_with(in_scene)
async def test_a_segment_that_vanishes_before_it_is_copied_is_no_catastrophe(
    scene: TierScene, /, monkeypatch: pytest.MonkeyPatch
) -> None:

    broker = scene.broker()
    broker.fill(2)
    prepare, answers = LogTiering.prepare_for_copy, [False]
    monkeypatch.setattr(
        LogTiering, "prepare_for_copy", lambda log, segment: answers.pop() if answers else prepare(log, segment)
    )
    broker.lead()
    await passes(5)
    assert scene.finished_ranges() == ranges(2)


@run_with(in_scene)
async def test_partitions_are_copied_at_the_same_time(scene: TierScene, /) -> None:
    """Uploads of two brokers' partitions, or of two partitions of one, do not wait for each other."""

    broker = scene.broker()
    broker.fill(1)
    copier = broker.manager._copier
    (segment,) = broker.log.tiering.tierable_segments(0, 10)
    running: list[TopicIdPartition] = []
    most = 0

    async def copy(partition: TopicIdPartition) -> None:
        nonlocal most
        running.append(partition)
        most = max(most, broker.manager._copy_pool.active_count)
        await copier.copy(partition, broker.log, segment)

    others = [TopicIdPartition(ORDERS.topic_id, "orders", index) for index in range(1, 15)]
    async with asyncio.TaskGroup() as group:
        for partition in others:
            group.create_task(copy(partition))
        await asyncio.sleep(0.0001)
        assert broker.manager._copy_pool.active_count == 10
    assert all(scene.listed(partition) for partition in others)


@pytest.mark.parametrize("is_filled_again", [False, True])
@run_with(in_scene)
async def test_a_segment_that_is_cut_while_it_is_copied_does_not_count(
    scene: TierScene, /, *, is_filled_again: bool
) -> None:

    broker = scene.broker()
    broker.fill(1)
    end = broker.log.log_end_offset

    def cut(_operation: str, _segment: RemoteLogSegmentMetadata) -> None:
        """Follow another leader, which has other records at the same offsets."""
        broker.log.truncation.truncate_to(BATCH_RECORDS, now_ms=scene.clock.now_ms())
        if is_filled_again:
            broker.log.leader_epochs.assign(3, BATCH_RECORDS)
            while broker.log.log_end_offset < end:
                broker.append(leader_epoch=3)

    scene.storage.add(StorageFault(operation="copy_log_segment_data", before=cut, times=1))
    broker.lead()
    await passes(0.5)
    assert scene.storage.calls
    assert scene.finished_ranges() == []
    await passes(2 * GRACE_MS / 1000)
    scene.check_tidy()


@run_with(in_scene)
async def test_a_copy_that_ends_when_the_topic_has_left_the_tier_is_not_relied_on(
    scene: TierScene, /, monkeypatch: pytest.MonkeyPatch
) -> None:

    broker = scene.broker()
    broker.fill(1)
    noted: list[int] = []
    scene.storage.add(
        StorageFault(
            operation="copy_log_segment_data",
            before=lambda *_: broker.set_topic(remote_storage_enable=False, remote_log_delete_on_disable=True),
            times=1,
        )
    )
    broker.lead()
    note = LogTiering.note_remote_offset

    def watch(log: LogTiering, offset: int) -> None:
        noted.append(offset)
        note(log, offset)

    monkeypatch.setattr(LogTiering, "note_remote_offset", watch)
    await passes(0.5)
    assert scene.storage.calls
    assert max(noted, default=-1) == -1


@run_with(in_scene)
async def test_the_log_learns_what_the_tier_holds_of_it(scene: TierScene, /) -> None:

    first, second = scene.broker(1), scene.broker(2)
    first.fill(3)
    second.fill(2)
    with pytest.raises(NotReadyError):
        second.tools.metadata.require_ready(ORDERS)
    first.lead()
    await passes(3)
    second.tools.metadata.require_ready(ORDERS)
    assert list(lineage_of(second.log).epochs) == [0]
    assert note_copied_offset(second.tools.metadata, ORDERS, second.log) == 24
    assert second.log.tiering.highest_remote_offset == 24


@run_with(in_scene)
async def test_what_is_known_already_is_not_looked_up_again(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    broker.leave()
    await broker.manager._segments.remove(scene.listed()[0])
    metadata = broker.tools.metadata
    assert note_copied_offset(metadata, ORDERS, broker.log) == -1
    assert note_copied_offset(metadata, ORDERS, broker.log, verified_offset=9) == 29
