"""AllocateProducerIds over the wire."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.quorum.sim_controllers import SimControllers, WireBroker, run_controllers


@run_with(run_controllers)
async def test_no_id_is_given_twice(cluster: SimControllers, /) -> None:
    node, broker = await cluster.active(), WireBroker(cluster)
    await broker.serve(node)
    fields = {"broker_id": 11, "broker_epoch": broker.epoch}
    blocks = [await node.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, **fields) for _ in range(2)]
    assert [(each.producer_id_start, each.producer_id_len) for each in blocks] == [(0, 1000), (1000, 1000)]
    fields["broker_epoch"] += 1
    refused = await node.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, **fields)
    assert (refused.error_code, refused.producer_id_len) == (ErrorCode.stale_broker_epoch, 0)
