"""ACL requests have no authorizer to go to."""

from __future__ import annotations

import pytest

from crabka.control.security_disabled import NO_AUTHORIZER
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_ACLS))
def test_every_version_is_refused(node: SimNode, version: int) -> None:
    answer = node.ask(
        ApiKey.DESCRIBE_ACLS,
        version,
        resource_type_filter=2,
        resource_name_filter=None,
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert (answer.error_code, answer.error_message) == (ErrorCode.security_disabled, NO_AUTHORIZER)
    assert answer.resources == ()
