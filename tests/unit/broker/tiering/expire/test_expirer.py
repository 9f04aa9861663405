"""Retention of remote segments and removal of leftovers: real logs, a tier in memory, virtual time."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.stats import (
    REMOTE_DELETE_ERRORS,
    REMOTE_DELETE_LAG_BYTES,
    REMOTE_DELETE_LAG_SEGMENTS,
    REMOTE_LOG_METADATA_COUNT,
    REMOTE_LOG_SIZE_BYTES,
)
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import (
    LogSegmentData,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from crabka.testing.faulty_storage import StorageFault
from crabka.testing.remote_samples import sample_update
from tests.support.async_tests import run_with
from tests.support.tiers.scene import GRACE_MS, SEGMENT_BYTES, TierBroker, TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import DELETING, FINISHED, ORDERS, STARTED, remote_segment

NAME = ORDERS.topic_partition
MINUTE_MS = 60_000


def drop_local(broker: TierBroker, count: int) -> None:
    """Let so many segments leave the local disk, as local retention does."""
    broker.log.retention._drop_first(count, 0)


@run_with(in_scene)
async def test_old_segments_go_and_the_log_start_follows_and_is_durable(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    broker.lead()
    await passes(3)
    await passes(MINUTE_MS / 1000)
    broker.fill(2)
    await passes(3)
    broker.set_topic(retention_ms=MINUTE_MS // 2)
    await passes(3)
    assert scene.finished_ranges() == [(20, 29), (30, 39)]
    assert broker.log.log_start_offset == 20
    assert scene.saved_starts == {1: 20}
    scene.check_tidy()


@run_with(in_scene)
async def test_too_much_goes_by_size_and_local_segments_count_once(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(5)
    broker.lead()
    await passes(3)
    # All five are local and remote; together with the active one there are five and a half.
    broker.set_topic(retention_bytes=3 * SEGMENT_BYTES)
    await passes(3)
    assert scene.finished_ranges() == [(20, 29), (30, 39), (40, 49)]
    assert broker.log.log_start_offset == 20


@run_with(in_scene)
async def test_what_is_local_and_remote_counts_once_also_right_after_a_start(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(4)
    broker.lead()
    await passes(3)
    broker.crash()
    again = scene.broker()
    again.set_topic(retention_bytes=5 * SEGMENT_BYTES)
    # The log does not know yet what the tier holds, and retention may be the first to look.
    assert again.log.tiering.highest_remote_offset == -1
    again.lead(1)
    await passes(3)
    assert len(scene.finished_ranges()) == 4


@run_with(in_scene)
async def test_retention_works_though_nothing_is_sealed_locally(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    drop_local(broker, 3)
    assert broker.log.local_log_start_offset == 30
    assert broker.log.tiering.tierable_segments(0, 100) == []
    broker.set_topic(retention_bytes=2 * SEGMENT_BYTES)
    await passes(3)
    assert scene.finished_ranges() == [(10, 19), (20, 29)]


@run_with(in_scene)
async def test_deleting_records_frees_remote_segments(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    broker.log.retention.delete_records_before(25)
    await passes(3)
    assert scene.finished_ranges() == [(20, 29)]
    assert broker.log.log_start_offset == 25
    scene.check_tidy()


@run_with(in_scene)
async def test_deleting_records_of_old_epochs_frees_their_segments(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    broker.lead()
    await passes(3)
    broker.lead(4)
    broker.fill(2, leader_epoch=4)
    await passes(3)
    # Nothing of epoch 0 is left in the history of the log then.
    broker.log.retention.delete_records_before(broker.log.log_end_offset)
    await passes(3)
    assert scene.listed() == []
    scene.check_tidy()


@run_with(in_scene)
async def test_segments_without_a_timestamp_do_not_expire_by_time(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(2)
    odd = remote_segment(0, 9, state=STARTED, newest_ms=-1)
    scene.rlmm.add_remote_log_segment_metadata(odd)
    scene.rlmm.update_remote_log_segment_metadata(
        RemoteLogSegmentMetadataUpdate(segment_id=odd.segment_id, event_timestamp_ms=0, state=FINISHED, broker_id=1)
    )
    broker.lead()
    broker.set_topic(retention_ms=1)
    await passes(10)
    assert scene.finished_ranges() == [(0, 9), (10, 19)]
    assert broker.log.log_start_offset == 0


@run_with(in_scene)
async def test_a_deletion_that_fails_is_finished_later_and_the_log_start_is_ahead_of_it(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    down = scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down")))
    broker.set_topic(retention_bytes=0)
    await passes(3)
    assert broker.log.log_start_offset == 30
    assert [state for _, _, state in scene.states()] == [DELETING, FINISHED, FINISHED]
    assert broker.stats.gauge(REMOTE_DELETE_LAG_SEGMENTS, NAME) == 3
    assert broker.stats.gauge(REMOTE_DELETE_LAG_BYTES, NAME) == 3 * SEGMENT_BYTES
    assert broker.stats.counter(REMOTE_DELETE_ERRORS, "orders") == down.fired_count
    # Even if nothing would have to go any more.
    broker.set_topic(retention_bytes=-1)
    scene.storage.remove(down)
    await passes(60)
    scene.check_tidy()
    assert scene.listed() == []
    assert broker.stats.gauge(REMOTE_DELETE_LAG_SEGMENTS, NAME) == 0


@run_with(in_scene)
async def test_uploads_of_others_are_removed_by_the_leader_after_the_grace_period_and_once_more(
    scene: TierScene, /
) -> None:

    broker = scene.broker()
    left = remote_segment(0, 9, state=STARTED, broker_id=9)
    scene.rlmm.add_remote_log_segment_metadata(left)
    broker.lead()
    await passes(GRACE_MS / 1000 - 2)
    assert scene.listed() == [left]
    await passes(4)
    assert [state for _, _, state in scene.states()] == [DELETING]
    assert deletions_of(scene, left) == 1
    # What its uploader stored after that goes, too.
    await passes(GRACE_MS / 1000)
    assert scene.listed() == []
    assert deletions_of(scene, left) == 2


def deletions_of(scene: TierScene, segment: RemoteLogSegmentMetadata) -> int:
    return scene.storage.calls.count(("delete_log_segment_data", segment.segment_id))


@run_with(in_scene)
async def test_a_crash_between_the_two_deletions_of_a_leftover_leaves_no_orphan(scene: TierScene, /) -> None:

    first = scene.broker(1)
    first.fill(1)
    left = remote_segment(0, 9, state=STARTED, broker_id=9)
    scene.rlmm.add_remote_log_segment_metadata(left)
    first.lead()
    await passes(GRACE_MS / 1000 + 2)
    assert deletions_of(scene, left) == 1
    first.crash()
    # The uploader was not dead at all: it ends what it was at.
    (own,) = first.log.tiering.tierable_segments(0, 10)
    files = LogSegmentData(
        log_segment=own.log_path,
        offset_index=own.offset_index_path,
        time_index=own.time_index_path,
        producer_snapshot_index=own.producer_snapshot_path,
        leader_epoch_index=b"",
    )
    heir = scene.broker(2)
    heir.lead(1)
    await passes(2)
    scene.store.copy_log_segment_data(left, files)
    await passes(GRACE_MS / 1000 + 2)
    scene.check_tidy()
    assert deletions_of(scene, left) == 3


def finish(scene: TierScene, segment: RemoteLogSegmentMetadata) -> None:
    """Let the upload of another broker end well."""
    listed = [each.state for each in scene.listed() if each.segment_id == segment.segment_id]
    if listed == [STARTED]:
        scene.rlmm.update_remote_log_segment_metadata(sample_update(segment, FINISHED))


def beside_an_upload(scene: TierScene) -> tuple[TierBroker, RemoteLogSegmentMetadata]:
    """Return a broker with one segment that another broker is uploading."""
    broker = scene.broker()
    broker.set_topic(remote_log_copy_disable=True)
    broker.fill(1)
    left = remote_segment(0, 9, state=STARTED, broker_id=9)
    scene.rlmm.add_remote_log_segment_metadata(left)
    return broker, left


@run_with(in_scene)
async def test_an_upload_that_is_finished_while_the_leader_asks_for_news_stays(scene: TierScene, /) -> None:

    broker, left = beside_an_upload(scene)
    scene.cluster.news = lambda: finish(scene, left)
    broker.lead()
    await passes(2 * GRACE_MS / 1000)
    assert scene.cluster.catch_ups
    assert scene.finished_ranges() == [(0, 9)]
    assert broker.log.tiering.highest_remote_offset == 9


@run_with(in_scene)
async def test_an_upload_that_is_finished_while_its_removal_is_noted_is_not_relied_on(
    scene: TierScene, /, monkeypatch: pytest.MonkeyPatch
) -> None:

    broker, left = beside_an_upload(scene)
    metadata = broker.tools.metadata
    update_segment = metadata.update_segment
    noted: list[int] = []

    async def update_late(update: RemoteLogSegmentMetadataUpdate) -> None:
        """Let the event of the uploader come first, and some time pass until the removal is read back."""
        finish(scene, left)
        await passes(5)
        noted.append(broker.log.tiering.highest_remote_offset)
        await update_segment(update)

    monkeypatch.setattr(metadata, "update_segment", update_late)
    broker.lead()
    await passes(3 * GRACE_MS / 1000)
    assert (noted[0], scene.listed()) == (-1, [])


@run_with(in_scene)
async def test_followers_remove_nothing(scene: TierScene, /) -> None:

    broker = scene.broker()
    left = remote_segment(0, 9, state=STARTED, broker_id=9)
    scene.rlmm.add_remote_log_segment_metadata(left)
    broker.follow()
    await passes(3 * GRACE_MS / 1000)
    assert scene.listed() == [left]


@run_with(in_scene)
async def test_size_and_number_of_segments_are_reported(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    assert broker.stats.gauge(REMOTE_LOG_METADATA_COUNT, NAME) == 3
    assert broker.stats.gauge(REMOTE_LOG_SIZE_BYTES, NAME) == 3 * SEGMENT_BYTES


@run_with(in_scene)
async def test_a_topic_without_the_delete_policy_keeps_everything(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    broker.set_topic(cleanup_policy=frozenset(), retention_bytes=0, retention_ms=0)
    await passes(5)
    assert len(scene.finished_ranges()) == 3


@run_with(in_scene)
async def test_a_leader_that_is_not_one_any_more_ends_in_the_middle(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(4)
    broker.lead()
    await passes(3)

    def lose(_operation: str, _segment: object) -> None:
        broker.follow()

    scene.storage.add(StorageFault(operation="delete_log_segment_data", before=lose, times=1))
    broker.set_topic(retention_bytes=0)
    await passes(10)
    states = [state for _, _, state in scene.states()]
    assert states == [RemoteLogSegmentState.COPY_SEGMENT_FINISHED] * 3


@run_with(in_scene)
async def test_a_leader_that_was_replaced_removes_nothing_of_its_successor(scene: TierScene, /) -> None:

    new, old = scene.broker(1), scene.broker(2)
    new.fill(3)
    new.lead()
    await passes(3)
    # Its history begins after what is in the tier; and it believes to lead.
    old.fill(4, leader_epoch=5)
    old.log.retention.raise_log_start(35)
    old.lead(5)
    scene.cluster.news = old.follow
    before = scene.cluster.catch_ups
    await passes(5)
    assert scene.cluster.catch_ups > before
    assert scene.finished_ranges()[:3] == [(0, 9), (10, 19), (20, 29)]
    # Without news it would have gone.
    scene.cluster.news = lambda: None
    new.leave()
    old.lead(6)
    await passes(5)
    assert not {(0, 9), (10, 19), (20, 29)} & set(scene.finished_ranges())


@run_with(in_scene)
async def test_an_empty_log_keeps_the_tier_and_says_so_once(
    scene: TierScene, /, caplog: pytest.LogCaptureFixture
) -> None:

    first = scene.broker(1)
    first.fill(3)
    first.lead()
    await passes(3)
    first.crash()
    # Another disk, on which there is nothing, leads.
    second = scene.broker(2)
    second.set_topic(retention_ms=1, retention_bytes=0)
    second.lead(5)
    await passes(60)
    assert scene.finished_ranges() == [(0, 9), (10, 19), (20, 29)]
    reported = [each for each in caplog.messages if "no part of its log" in each]
    assert len(reported) == 1
    assert "3 segments in the tier, of offsets 0 to 29, that are no part of its log from 0 to 0" in reported[0]
    assert "crabka tier forget orders:0" in reported[0]
    # The operator's word: what `crabka tier forget` writes.
    for segment in scene.listed():
        scene.rlmm.update_remote_log_segment_metadata(sample_update(segment, DELETING))
    await passes(2 * GRACE_MS / 1000)
    assert (scene.listed(), scene.store.segment_ids()) == ([], [])
