"""BrokerHeartbeat over the wire; the decisions themselves are tested with the controller."""

from __future__ import annotations

from uuid import UUID

import pytest

from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import SimControllers, WireBroker, create_topic, run_controllers


@pytest.mark.parametrize("version", range(3))
@run_with(run_controllers)
async def test_a_broker_that_caught_up_may_serve(cluster: SimControllers, /, version: int) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.register(node)
    behind = await broker.heartbeat(node, version, current_metadata_offset=broker.epoch - 1)
    assert (behind.error_code, behind.is_caught_up, behind.is_fenced) == (ErrorCode.none, False, True)
    reply = await broker.heartbeat(node, version)
    assert (reply.is_caught_up, reply.is_fenced, reply.should_shut_down) == (True, False, False)
    assert not node.context.image.cluster.brokers[11].fenced


@run_with(run_controllers)
async def test_a_broker_that_leads_nothing_may_stop_at_once(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    assert (await broker.heartbeat(node, want_shut_down=True)).should_shut_down
    assert node.context.image.cluster.brokers[11].fenced
    # Its next run need not wait for the session.
    broker.incarnation_id = UUID(int=7)
    assert (await broker.register(node)).error_code is ErrorCode.none


@run_with(run_controllers)
async def test_a_leader_stops_when_others_know_that_it_does_not_lead(cluster: SimControllers, /) -> None:
    node, broker, other = await cluster.active(), WireBroker(cluster), WireBroker(cluster, 12, 9093)
    await broker.serve(node)
    await other.serve(node)
    await create_topic(node, "t", (11, 12))
    stale = node.quorum.image.offset
    assert not (await broker.heartbeat(node, want_shut_down=True)).should_shut_down
    assert node.context.image.topics.by_name["t"].partitions[0].leader == 12
    await other.heartbeat(node, current_metadata_offset=stale)
    assert not (await broker.heartbeat(node, want_shut_down=True)).should_shut_down
    await other.heartbeat(node)
    assert (await broker.heartbeat(node, want_shut_down=True)).should_shut_down


@pytest.mark.parametrize("ahead", [1, 2**62], ids=["one", "far"])
@run_with(run_controllers)
async def test_an_offset_that_is_not_in_the_metadata_log_is_refused_and_changes_nothing(
    cluster: SimControllers, /, ahead: int
) -> None:
    node, broker, other = await cluster.active(), WireBroker(cluster), WireBroker(cluster, 12, 9093)
    await broker.serve(node)
    await other.register(node)
    for wild in (node.quorum.next_offset - 1 + ahead, -1 - ahead):
        refused = await other.heartbeat(node, current_metadata_offset=wild)
        assert (refused.error_code, refused.is_fenced) == (ErrorCode.invalid_request, True)
    assert node.context.image.cluster.brokers[12].fenced
    assert (await other.heartbeat(node, current_metadata_offset=-1)).error_code is ErrorCode.none
    assert not (await other.heartbeat(node, current_metadata_offset=node.quorum.next_offset - 1)).is_fenced


@run_with(run_controllers)
async def test_another_incarnation_is_notified(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    reply = await broker.heartbeat(node, broker_epoch=broker.epoch + 5)
    assert (reply.error_code, reply.is_fenced) == (ErrorCode.stale_broker_epoch, True)
    assert not node.context.sessions.expired(node.context.runtime.clock.monotonic_ms())


@run_with(run_controllers, 3)
async def test_only_the_active_controller_is_notified(cluster: SimControllers, /) -> None:
    reply = await WireBroker(cluster).heartbeat(await cluster.passive())
    assert reply.error_code is ErrorCode.not_controller
