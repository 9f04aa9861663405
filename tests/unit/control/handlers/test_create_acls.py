"""ACL requests have no authorizer to go to."""

from __future__ import annotations

import pytest

from crabka.control.security_disabled import NO_AUTHORIZER
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode, row, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_ACLS))
def test_every_version_is_refused(node: SimNode, version: int) -> None:
    answer = node.ask(
        ApiKey.CREATE_ACLS,
        version,
        creations=[
            row(
                "AclCreation",
                resource_type=2,
                resource_name="t",
                resource_pattern_type=3,
                principal="User:a",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
        * 2,
    )
    assert [(each.error_code, each.error_message) for each in answer.results] == [
        (ErrorCode.security_disabled, NO_AUTHORIZER)
    ] * 2
