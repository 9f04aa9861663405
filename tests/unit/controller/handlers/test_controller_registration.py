"""ControllerRegistration over the wire."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import row
from tests.support.quorum.sim_controllers import SimControllers, run_controllers

FIELDS: dict[str, Any] = {
    "controller_id": 7,
    "incarnation_id": UUID(int=77),
    "zk_migration_ready": False,
    "listeners": [row("Listener", name="CONTROLLER", host="c7", port=9093, security_protocol=0)],
    "features": [row("Feature", name="metadata.version", min_supported_version=7, max_supported_version=30)],
}


@run_with(run_controllers)
async def test_a_controller_becomes_known(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    response = await node.ask(ApiKey.CONTROLLER_REGISTRATION, 0, **FIELDS)
    assert (response.error_code, response.error_message) == (ErrorCode.none, "")
    registered = node.context.image.cluster.controllers[7]
    assert (registered.incarnation_id, registered.endpoints[0].host) == (UUID(int=77), "c7")
    assert registered.features["metadata.version"] == (7, 30)


@run_with(run_controllers, 3)
async def test_only_the_active_controller_registers(cluster: SimControllers, /) -> None:
    response = await (await cluster.passive()).ask(ApiKey.CONTROLLER_REGISTRATION, 0, **FIELDS)
    assert response.error_code is ErrorCode.not_controller
    assert response.error_message
