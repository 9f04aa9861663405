"""UnregisterBroker over the wire."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import SimControllers, WireBroker, run_controllers


@run_with(run_controllers)
async def test_a_broker_is_forgotten(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    response = await node.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=11)
    assert (response.error_code, response.error_message) == (ErrorCode.none, "")
    assert 11 not in node.context.image.cluster.brokers
    assert (await broker.heartbeat(node)).error_code is ErrorCode.stale_broker_epoch
    again = await node.ask(ApiKey.UNREGISTER_BROKER, 0, broker_id=11)
    assert again.error_code is ErrorCode.broker_id_not_registered
    assert again.error_message
