"""BrokerRegistration over the wire; the decisions themselves are tested with the controller."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import SimControllers, WireBroker, run_controllers

FIRST_VERSION_WITH_DIRECTORIES = 2


@pytest.mark.parametrize("version", range(5))
@run_with(run_controllers)
async def test_the_epoch_is_the_offset_of_the_registration(cluster: SimControllers, /, version: int) -> None:
    node = await cluster.active()
    if version < FIRST_VERSION_WITH_DIRECTORIES:
        # The metadata of a new cluster needs to know the log dirs.
        response = await WireBroker(cluster).register(node, version)
        assert response.error_code is ErrorCode.invalid_registration
        return
    before = node.quorum.next_offset
    response = await WireBroker(cluster).register(node, version)
    assert response.error_code is ErrorCode.none
    registered = node.context.image.cluster.brokers[11]
    assert (response.broker_epoch, registered.epoch, registered.fenced) == (before, before, True)
    assert [each.host for each in registered.endpoints] == ["broker"]


@run_with(run_controllers)
async def test_a_second_process_with_the_same_id_waits_for_the_end_of_the_session(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    first, second = WireBroker(cluster), WireBroker(cluster)
    second.incarnation_id = UUID(int=7)
    await first.serve(node)
    response = await second.register(node)
    assert response.error_code is ErrorCode.duplicate_broker_registration
    await asyncio.sleep(node.config.broker_session_timeout_ms / 1000 + 1)
    assert (await second.register(node)).error_code is ErrorCode.none
    assert (await first.heartbeat(node)).error_code is ErrorCode.stale_broker_epoch


@run_with(run_controllers)
async def test_another_cluster_is_refused(cluster: SimControllers, /) -> None:
    response = await WireBroker(cluster).register(await cluster.active(), cluster_id="other")
    assert (response.error_code, response.broker_epoch) == (ErrorCode.inconsistent_cluster_id, -1)


@run_with(run_controllers, 3)
async def test_only_the_active_controller_registers(cluster: SimControllers, /) -> None:
    response = await WireBroker(cluster).register(await cluster.passive())
    assert response.error_code is ErrorCode.not_controller
