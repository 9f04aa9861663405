"""What the active controller does by itself, and that it stops with its term."""

from __future__ import annotations

import pytest

from crabka.controller.decisions.sessions import BrokerIncarnation, BrokerSessions
from crabka.controller.duties import LATE_MS, fence_incarnation
from crabka.errors import OperationError
from crabka.metadata.records import PartitionChangeRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import (
    SimController,
    SimControllers,
    WireBroker,
    create_topic,
    run_controllers,
)

SESSION_S = 9


def is_fenced(node: SimController) -> bool:
    return node.context.image.cluster.brokers[11].fenced


async def leader_of(node: SimController, topic: str = "t") -> int:
    return node.context.image.topics.by_name[topic].partitions[0].leader


@run_with(run_controllers)
async def test_a_silent_broker_is_fenced_when_its_session_is_over(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    await cluster.pause(5)
    await broker.heartbeat(node)
    await cluster.pause(SESSION_S - 1)
    assert not is_fenced(node)
    await cluster.wait(lambda: is_fenced(node), timeout_s=2)
    assert not (await broker.heartbeat(node)).is_fenced


def test_a_silent_broker_is_fenced_though_the_duty_failed_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [LookupError("where is it?")]
    expired = BrokerSessions.expired

    def fail_first(self: BrokerSessions, now_ms: int) -> list[BrokerIncarnation]:
        if failures:
            raise failures.pop()
        return expired(self, now_ms)

    monkeypatch.setattr(BrokerSessions, "expired", fail_first)

    async def main(cluster: SimControllers) -> None:
        node, broker = await cluster.active(), WireBroker(cluster)
        await broker.serve(node)
        await cluster.wait(lambda: is_fenced(node), timeout_s=3 * SESSION_S)

    run_controllers(main)
    assert "The duty expire_sessions failed" in caplog.text


@run_with(run_controllers)
async def test_a_broker_that_registered_anew_is_not_fenced_for_its_past(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    old = BrokerIncarnation(11, broker.epoch)
    await broker.heartbeat(node, want_shut_down=True)
    broker.incarnation_id = broker.directory
    await broker.serve(node)
    await fence_incarnation(node.context, old, "late")
    assert not is_fenced(node)


@run_with(run_controllers)
async def test_a_controller_that_stood_still_receives_heartbeats_first(
    cluster: SimControllers, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    clock = node.context.runtime.clock
    real = clock.monotonic_ms
    jump_ms = 0
    monkeypatch.setattr(type(clock), "monotonic_ms", lambda _clock: real() + jump_ms)
    await cluster.pause(SESSION_S - 1)
    jump_ms = LATE_MS * 5
    await cluster.pause(1.5)
    assert not is_fenced(node)
    await broker.heartbeat(node)
    await cluster.pause(3)
    assert not is_fenced(node)
    jump_ms = 0


def test_preferred_leaders_come_back() -> None:
    async def main(cluster: SimControllers) -> None:
        node, first, second = await cluster.active(), WireBroker(cluster), WireBroker(cluster, 12, 9093)
        await first.serve(node)
        await second.serve(node)
        topic_id = await create_topic(node, "t", (11, 12))
        await node.quorum.append([PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=12)])
        assert await leader_of(node) == 12
        for _ in range(6):
            await cluster.pause(2)
            await first.heartbeat(node)
            await second.heartbeat(node)
        assert await leader_of(node) == (11 if enabled else 12)

    interval = {"leader_imbalance_check_interval_seconds": "5"}
    for enabled in (True, False):
        run_controllers(main, 1, **interval, auto_leader_rebalance_enable=str(enabled).lower())


@run_with(run_controllers, unclean_leader_election_interval_ms="5000")
async def test_unclean_leaders_are_elected_where_that_is_allowed(cluster: SimControllers, /) -> None:
    node, first, second = await cluster.active(), WireBroker(cluster), WireBroker(cluster, 12, 9093)
    await first.serve(node)
    await second.serve(node)
    for name, allowed in (("safe", "false"), ("t", "true")):
        topic_id = await create_topic(node, name, (11, 12), unclean_leader_election_enable=allowed)
        lost = PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(11,), leader=-1)
        await node.quorum.append([lost])
    await first.heartbeat(node, want_fence=True)
    for _ in range(3):
        await cluster.pause(2)
        await second.heartbeat(node)
    assert (await leader_of(node, "safe"), await leader_of(node)) == (-1, 12)


@run_with(run_controllers)
async def test_duties_end_with_the_term(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    await node.service.close()
    await cluster.pause(SESSION_S * 2)
    assert not is_fenced(node)
    await node.stop()
    await node.start()
    await cluster.active()
    assert (await broker.heartbeat(node)).error_code is ErrorCode.none


@run_with(run_controllers)
async def test_a_controller_that_cannot_decide_does_not_try_in_every_moment(
    cluster: SimControllers, /, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    tries = 0

    async def refuse(_writer: object, _decide: object) -> None:
        nonlocal tries
        tries += 1
        raise OperationError(ErrorCode.not_controller)

    monkeypatch.setattr(type(node.context.metadata_writer), "submit", refuse)
    await cluster.pause(SESSION_S + 10)
    assert 1 <= tries <= 50
    monkeypatch.undo()
    await cluster.wait(lambda: is_fenced(node), timeout_s=5)
