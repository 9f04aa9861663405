"""Controllers that are asked without a broker in between (KIP-919)."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.metadata import EndpointType
from crabka.errors import ConfigError, OperationError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_controller_admin
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clients.simulation import ClientSimulation


class ControllersOfTest:
    """Controllers 1 and 2, of which 2 is active."""

    def __init__(self) -> None:
        self.simulation: ClientSimulation | None = None
        self.active = 2

    def describe(self, request: ReceivedRequest) -> Any:
        if request.body.endpoint_type != EndpointType.CONTROLLERS or self.simulation is None:
            raise AssertionError(request)
        nodes = [
            request.types.new("DescribeClusterBroker", broker_id=node, host=host, port=port, rack=None, is_fenced=False)
            for node, (host, port) in self.simulation.brokers.addresses.items()
        ]
        return request.types.message(
            throttle_time=0, error_code=ErrorCode.none, cluster_id="c", controller_id=self.active, brokers=nodes
        )

    def unregister(self, request: ReceivedRequest) -> Any:
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None)


def test_requests_go_to_the_active_controller_also_after_it_changed() -> None:
    controllers = ControllersOfTest()

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        controllers.simulation = simulation
        nodes = simulation.brokers.brokers
        await admin.cluster.unregister_broker(5)
        assert [len(nodes[node].asked(ApiKey.UNREGISTER_BROKER)) for node in (1, 2)] == [0, 1]
        controllers.active = 1
        await admin.cluster.unregister_broker(5)
        assert [len(nodes[node].asked(ApiKey.UNREGISTER_BROKER)) for node in (1, 2)] == [1, 1]

    with_controller_admin(
        test, node_ids=(1, 2), DESCRIBE_CLUSTER=controllers.describe, UNREGISTER_BROKER=controllers.unregister
    )


def test_controllers_return_each_other() -> None:
    controllers = ControllersOfTest()

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        controllers.simulation = simulation
        found = await admin.cluster.describe()
        assert (found.controller_id, [node.node_id for node in found.brokers]) == (2, [1, 2])

    with_controller_admin(test, node_ids=(1, 2), DESCRIBE_CLUSTER=controllers.describe)


def test_without_an_active_controller_any_is_asked() -> None:
    controllers = ControllersOfTest()
    controllers.active = -1

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        controllers.simulation = simulation
        assert (await admin.cluster.describe()).controller_id == -1

    with_controller_admin(test, node_ids=(1, 2), DESCRIBE_CLUSTER=controllers.describe)


def test_an_active_controller_that_is_gone_does_not_stop_the_others() -> None:
    controllers = ControllersOfTest()

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        controllers.simulation = simulation
        nodes = simulation.brokers.brokers
        nodes[2].close()
        await admin.cluster.unregister_broker(5)
        assert len(nodes[1].asked(ApiKey.UNREGISTER_BROKER)) == 1

    with_controller_admin(
        test, node_ids=(1, 2), DESCRIBE_CLUSTER=controllers.describe, UNREGISTER_BROKER=controllers.unregister
    )


def test_a_broker_is_not_taken_for_a_controller() -> None:
    def answer(request: ReceivedRequest) -> Any:
        return request.types.message(
            throttle_time=0,
            error_code=ErrorCode.mismatched_endpoint_type,
            error_message="this is a broker",
            cluster_id="",
            controller_id=-1,
            brokers=[],
        )

    async def test(admin: Admin, _: ClientSimulation) -> None:
        with pytest.raises(OperationError, match="asking for the controllers: this is a broker"):
            await admin.cluster.describe()

    with_controller_admin(test, DESCRIBE_CLUSTER=answer)


@run_with(with_controller_admin)
async def test_controllers_have_no_metadata_of_topics(admin: Admin, /) -> None:
    with pytest.raises(ConfigError, match="controllers have no metadata of topics"):
        await admin.list_topics()
