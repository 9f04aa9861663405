"""DescribeConfigs at the controller."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import row
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


@run_with(run_controllers, 3)
async def test_any_controller_describes_itself(cluster: SimControllers, /) -> None:
    node = await cluster.passive()
    resources = [
        row("DescribeConfigsResource", resource_type=4, resource_name=name, configuration_keys=("node.id",))
        for name in (str(node.node_id), "99")
    ]
    fields = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    own, other = (await node.ask(ApiKey.DESCRIBE_CONFIGS, 4, **fields)).results
    assert (own.error_code, own.configs[0].value) == (ErrorCode.none, str(node.node_id))
    assert other.error_code is ErrorCode.invalid_request
