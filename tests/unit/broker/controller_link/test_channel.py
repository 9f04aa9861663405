"""Requests to the active controller: here, elsewhere, nowhere, and while it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crabka.broker.controller_link.channel import ControllerChannel
from crabka.clients.errors import VersionMismatchError
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError, Later, ReceivedRequest, ScriptedBroker
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.nodes.controller_stand_in import ControllerInProcess, KnownLeader

TIMEOUT_MS = 5_000
Test = Callable[["Fixture"], Awaitable[None]]


class Fixture:
    """A channel of node 1, controllers on hosts `c2` and `c3`, and the one of node 1 itself."""

    def __init__(self, simulation: ClientSimulation) -> None:
        self.network = simulation.network
        self.quorum = KnownLeader()
        self.local = ControllerInProcess()
        self.local.is_active = False
        self.local.answers[ApiKey.ALLOCATE_PRODUCER_IDS] = lambda types, _: allocated(types, 1)
        quorum: Any = self.quorum
        self.channel = ControllerChannel(simulation.runtime, quorum, node_id=1, timeout_ms=TIMEOUT_MS, local=self.local)

    async def controller(self, node_id: int, answer: Callable[[ReceivedRequest], Any] | None = None) -> ScriptedBroker:
        broker = ScriptedBroker()
        broker.answers[ApiKey.ALLOCATE_PRODUCER_IDS] = answer or (lambda request: allocated(request.types, node_id))
        await broker.listen(self.network.host(f"c{node_id}"), f"c{node_id}", 9)
        return broker

    def lead(self, node_id: int | None) -> None:
        self.quorum.lead(node_id, f"c{node_id}", 9)

    async def ask(self) -> int:
        answer = await self.channel.request(ApiKey.ALLOCATE_PRODUCER_IDS, ask_for_ids)
        return int(answer.producer_id_start)


def allocated(types: MessageTypes, first: int, error_code: ErrorCode = ErrorCode.none) -> Any:
    return types.message(throttle_time=0, error_code=error_code, producer_id_start=first, producer_id_len=1)


def ask_for_ids(types: MessageTypes) -> Any:
    return types.message(broker_id=1, broker_epoch=7)


def run(test: Test) -> None:
    async def main(simulation: ClientSimulation) -> None:
        fixture = Fixture(simulation)
        try:
            await test(fixture)
        finally:
            await fixture.channel.close()

    simulate(main)


@run_with(run)
async def test_the_controller_of_the_own_node_is_asked_without_a_socket(fixture: Fixture, /) -> None:
    fixture.local.is_active = True
    fixture.quorum.lead(1)
    assert await fixture.ask() == 1
    assert fixture.local.asked[0][1].broker_epoch == 7


@run_with(run)
async def test_another_node_is_asked_over_one_connection(fixture: Fixture, /) -> None:
    controller = await fixture.controller(2)
    fixture.lead(2)
    assert [await fixture.ask(), await fixture.ask()] == [2, 2]
    assert controller.connection_count == 1
    controller.close()


@run_with(run)
async def test_a_request_waits_for_a_leader(fixture: Fixture, /) -> None:
    controller = await fixture.controller(3)
    asking = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(1)
    assert not asking.done()
    fixture.lead(3)
    assert await asking == 3
    controller.close()


@run_with(run)
async def test_a_leader_that_is_not_active_yet_is_asked_again(fixture: Fixture, /) -> None:
    fixture.quorum.lead(1)
    asking = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(1)
    assert not asking.done()
    fixture.local.is_active = True
    assert await asking == 1


@run_with(run)
async def test_a_controller_that_refuses_is_left_for_the_next(fixture: Fixture, /) -> None:
    old = await fixture.controller(2, lambda request: allocated(request.types, -1, ErrorCode.not_controller))
    new = await fixture.controller(3)
    fixture.lead(2)
    asking = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(1)
    assert len(old.asked(ApiKey.ALLOCATE_PRODUCER_IDS)) > 1
    fixture.lead(3)
    assert await asking == 3
    for controller in (old, new):
        controller.close()


@run_with(run)
async def test_a_lost_connection_is_no_answer(fixture: Fixture, /) -> None:
    failures = iter([True, False])

    def answer(request: ReceivedRequest) -> Any:
        if next(failures):
            raise DisconnectError
        return allocated(request.types, 2)

    controller = await fixture.controller(2, answer)
    fixture.lead(2)
    assert await fixture.ask() == 2
    assert controller.connection_count == 2
    controller.close()


@run_with(run)
async def test_a_request_that_waits_at_a_controller_that_lost_asks_the_next(fixture: Fixture, /) -> None:
    from tests.support.clients.scripted_broker import NO_ANSWER

    old = await fixture.controller(2, lambda _: NO_ANSWER)
    new = await fixture.controller(3)
    fixture.lead(2)
    asking = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(1)
    fixture.lead(3)
    assert await asking == 3
    for controller in (old, new):
        controller.close()


@run_with(run)
async def test_a_failed_request_leaves_the_connection_of_others_alone(fixture: Fixture, /) -> None:
    from tests.support.clients.scripted_broker import NO_ANSWER

    old = await fixture.controller(2, lambda _: NO_ANSWER)
    new = await fixture.controller(3, lambda request: Later(500, allocated(request.types, 3)))
    fixture.lead(2)
    first = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(1)
    failed = fixture.channel._connection
    assert failed is not None
    # The next controller is asked before the first request learns that its connection is lost.
    fixture.channel._connection = fixture.channel._connected_to = None
    fixture.lead(3)
    second = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(0.1)
    failed.close()
    assert (await first, await second) == (3, 3)
    assert new.connection_count == 1
    for controller in (old, new):
        controller.close()


@run_with(run)
async def test_a_connection_that_opens_after_the_end_is_closed(fixture: Fixture, /) -> None:
    controller = await fixture.controller(2)
    versions = controller.answers[ApiKey.API_VERSIONS]
    controller.answers[ApiKey.API_VERSIONS] = lambda request: Later(500, versions(request))
    fixture.lead(2)
    asking = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(0.1)
    await fixture.channel.close()
    with pytest.raises(OperationError, match="before the broker stopped"):
        await asking
    await asyncio.sleep(1)
    assert not controller.connections
    controller.close()


@run_with(run)
async def test_without_a_controller_the_time_is_up_in_the_end(fixture: Fixture, /) -> None:
    with pytest.raises(OperationError) as caught:
        await fixture.ask()
    assert caught.value.error_code is ErrorCode.request_timed_out


@run_with(run)
async def test_requests_that_wait_for_a_controller_fail_when_the_broker_stops(fixture: Fixture, /) -> None:
    asking = asyncio.ensure_future(fixture.ask())
    await asyncio.sleep(0.01)
    await fixture.channel.close()
    for request in (asking, fixture.ask()):
        async with asyncio.timeout(TIMEOUT_MS / 5000):
            with pytest.raises(OperationError, match="before the broker stopped"):
                await request


@run_with(run)
async def test_a_controller_that_does_not_know_the_request_is_not_asked_again(fixture: Fixture, /) -> None:
    controller = await fixture.controller(2)
    del controller.versions[ApiKey.ALLOCATE_PRODUCER_IDS]
    fixture.lead(2)
    with pytest.raises(VersionMismatchError):
        await fixture.ask()
    controller.close()


@run_with(run)
async def test_rows_that_refuse_count_as_a_refusal(fixture: Fixture, /) -> None:
    codes = iter([ErrorCode.not_controller, ErrorCode.none])

    def create(types: MessageTypes, _: Any) -> Any:
        topic = types.new(
            "CreatableTopicResult",
            name="t",
            topic_id=None,
            error_code=next(codes),
            error_message=None,
            num_partitions=1,
            replication_factor=1,
            configs=(),
        )
        return types.message(throttle_time=0, topics=[topic])

    fixture.local.is_active = True
    fixture.local.answers[ApiKey.CREATE_TOPICS] = create
    fixture.quorum.lead(1)
    answer = await fixture.channel.request(
        ApiKey.CREATE_TOPICS, lambda types: types.message(topics=[], timeout=1000, validate_only=False)
    )
    assert answer.topics[0].error_code is ErrorCode.none
