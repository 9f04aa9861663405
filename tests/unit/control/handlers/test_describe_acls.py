"""DescribeAcls at the controller: there is no authorizer."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_controller import SimControllers, run_controllers


def test_acls_are_disabled() -> None:
    filters = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }

    async def main(cluster: SimControllers) -> None:
        answer = await (await cluster.passive()).ask(ApiKey.DESCRIBE_ACLS, 3, **filters)
        assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())

    run_controllers(main, 3)
