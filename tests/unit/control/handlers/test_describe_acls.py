"""DescribeAcls at the controller: there is no authorizer."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.sim_controller import SimControllers, run_controllers


@run_with(run_controllers, 3)
async def test_acls_are_disabled(cluster: SimControllers, /) -> None:
    filters = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }

    answer = await (await cluster.passive()).ask(ApiKey.DESCRIBE_ACLS, 3, **filters)
    assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())
