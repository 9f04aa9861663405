"""Emptying the tier of a partition that is not tiered any more, while the topic may be tiered again at any moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crabka.broker.tiering.expire.purge import TierPurge
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.errors import NotReadyError, RemoteBackendError
from crabka.remote.removal_notice import COMMITTED, is_removal_notice
from crabka.remote.segments import RemoteLogSegmentMetadata
from crabka.testing.faulty_storage import StorageFault
from tests.support.async_tests import run_with
from tests.support.tiers.scene import TierBroker, TierScene, in_scene, passes
from tests.support.tiers.segment_metadata import DELETING, FINISHED, ORDERS, STARTED, remote_segment


async def filled(scene: TierScene, broker_id: int = 1) -> TierBroker:
    """Return a broker that has copied three segments and does nothing of its own any more."""
    broker = scene.broker(broker_id)
    broker.fill(3)
    broker.lead()
    await passes(3)
    broker.leave()
    return broker


def purge_of(broker: TierBroker, on_catch_up: Callable[[], Any] = lambda: None) -> TierPurge:
    async def catch_up() -> None:
        result = on_catch_up()
        if result is not None:
            await result

    return TierPurge(broker.tools, broker.manager._segments, catch_up)


def segments_of(scene: TierScene) -> list[RemoteLogSegmentMetadata]:
    return [each for each in scene.listed() if not is_removal_notice(each)]


def notices_of(scene: TierScene) -> list[RemoteLogSegmentMetadata]:
    return [each for each in scene.listed() if is_removal_notice(each)]


@run_with(in_scene)
async def test_everything_goes_and_the_notice_last(scene: TierScene, /) -> None:

    broker = await filled(scene)
    broker.log.retention._drop_first(1, 0)
    await purge_of(broker).purge(ORDERS, broker.log, lambda: True)
    assert (scene.listed(), scene.store.segment_ids()) == ([], [])
    assert (broker.log.log_start_offset, scene.saved_starts[1]) == (10, 10)


@run_with(in_scene)
async def test_an_empty_tier_needs_no_notice(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.1)
    await purge_of(broker).purge(ORDERS, broker.log, lambda: True)
    assert scene.rlmm.partitions() == []


@run_with(in_scene)
async def test_the_notice_is_there_before_the_controller_is_asked_and_nothing_is_removed_yet(
    scene: TierScene, /
) -> None:
    seen: list[Any] = []

    broker = await filled(scene)

    def look() -> None:
        seen.append([each.state for each in notices_of(scene)])
        seen.append([each.state for each in segments_of(scene)])

    await purge_of(broker, look).purge(ORDERS, broker.log, lambda: True)
    assert seen == [[STARTED], [FINISHED] * 3]


@run_with(in_scene)
async def test_nothing_goes_if_the_topic_is_tiered_again_by_then(scene: TierScene, /) -> None:

    broker = await filled(scene)
    await purge_of(broker).purge(ORDERS, broker.log, lambda: False)
    scene.check_tidy()
    assert len(scene.finished_ranges()) == 3


@run_with(in_scene)
async def test_a_leader_that_tiers_again_keeps_a_sleeper_from_removing(scene: TierScene, /) -> None:
    """The first broker stops for a while between what the controller said and its next step."""

    first, second = await filled(scene), scene.broker(2)
    second.fill(3)
    settling = purge_of(second)
    sleeping = purge_of(first, lambda: settling.settle(ORDERS, second.log))
    with pytest.raises(NotReadyError):
        await sleeping.purge(ORDERS, first.log, lambda: True)
    scene.check_tidy()
    assert len(scene.finished_ranges()) == 3


@run_with(in_scene)
async def test_what_was_committed_is_ended_by_the_leader_that_tiers_again(scene: TierScene, /) -> None:

    first, second = await filled(scene), scene.broker(2)
    second.fill(3)
    second.log.retention._drop_first(2, 0)
    scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down"), times=1))
    with pytest.raises(RemoteBackendError):
        await purge_of(first).purge(ORDERS, first.log, lambda: True)
    assert len(segments_of(scene)) == 3
    await purge_of(second).settle(ORDERS, second.log)
    assert (scene.listed(), scene.store.segment_ids()) == ([], [])
    # What only the tier had is gone.
    assert second.log.log_start_offset == 20


@run_with(in_scene)
async def test_a_withdrawal_that_comes_after_the_commitment_does_not_count(scene: TierScene, /) -> None:

    broker = await filled(scene)
    purge = purge_of(broker)
    scene.storage.add(StorageFault(operation="delete_log_segment_data", error=RemoteBackendError("down"), times=1))
    with pytest.raises(RemoteBackendError):
        await purge.purge(ORDERS, broker.log, lambda: True)
    (notice,) = notices_of(scene)
    assert notice.custom_metadata == COMMITTED
    assert not await purge._withdraw(notice)
    assert [each.state for each in broker.tools.metadata.active_notices(ORDERS)] == [DELETING]


@run_with(in_scene)
async def test_what_is_added_after_a_removal_is_left_alone_by_one_that_lags(scene: TierScene, /) -> None:

    first, second = await filled(scene), await filled(scene, 2)

    async def end_and_copy_again() -> None:
        await purge_of(second).settle(ORDERS, second.log)
        second.lead(1)
        await passes(3)

    lagging = purge_of(first)
    held: list[str] = []

    async def slow_remove(_segment: RemoteLogSegmentMetadata, _custom: Any = None) -> None:
        if not held:
            held.append("once")
            await end_and_copy_again()

    remover: Any = first.manager._segments
    remover.remove = slow_remove
    await lagging.purge(ORDERS, first.log, lambda: True)
    assert held
    scene.check_tidy()
    assert scene.finished_ranges() == [(0, 9), (10, 19), (20, 29)]


@run_with(in_scene)
async def test_a_removal_that_another_task_is_at_is_waited_for(scene: TierScene, /) -> None:

    broker = await filled(scene)
    segment = segments_of(scene)[0]
    broker.manager._segments.in_flight.add(segment.segment_id)
    with pytest.raises(NotReadyError):
        await purge_of(broker).purge(ORDERS, broker.log, lambda: True)
    assert len(broker.tools.metadata.active_notices(ORDERS)) == 1
    broker.manager._segments.in_flight.clear()
    await purge_of(broker).purge(ORDERS, broker.log, lambda: True)
    assert scene.listed() == []


@run_with(in_scene)
async def test_a_controller_that_does_not_answer_costs_one_notice_and_no_segment(scene: TierScene, /) -> None:

    broker = await filled(scene)

    def fail() -> None:
        raise OperationError(ErrorCode.request_timed_out, "no controller")

    for _ in range(3):
        with pytest.raises(OperationError):
            await purge_of(broker, fail).purge(ORDERS, broker.log, lambda: True)
    assert (len(notices_of(scene)), len(scene.finished_ranges())) == (1, 3)
    await purge_of(broker).purge(ORDERS, broker.log, lambda: True)
    assert scene.listed() == []


@run_with(in_scene)
async def test_segments_alone_are_no_notices(scene: TierScene, /) -> None:

    broker = scene.broker()
    await passes(0.1)
    scene.rlmm.add_remote_log_segment_metadata(remote_segment(0, 9, state=STARTED))
    assert broker.tools.metadata.active_notices(ORDERS) == []
    await purge_of(broker).settle(ORDERS, broker.log)
    assert len(scene.listed()) == 1
