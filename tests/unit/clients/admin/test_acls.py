"""ACLs over the administrative client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.clients.admin.acls import AclAdmin
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey, request_types, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


class Requests:
    """Answers every request with a given response and remembers the request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: Any = None

    async def ask(self, api_key: ApiKey, build: Any) -> Any:
        self.asked = build(request_types(api_key, 3))
        return self.answer


def test_one_refused_acl_is_named() -> None:
    types = response_types(ApiKey.CREATE_ACLS, 3)
    good = types.new("AclCreationResult", error_code=ErrorCode.none, error_message="")
    bad = types.new("AclCreationResult", error_code=ErrorCode.invalid_request, error_message="no")
    requests: Any = Requests(types.message(throttle_time=0, results=[good, bad]))
    with pytest.raises(OperationError, match=r"ALLOW READ on TOPIC LITERAL 'u' for User:a from \*: no"):
        asyncio.run(AclAdmin(requests).create([READ, READ._replace(name="u")]))
    assert [each.resource_name for each in requests.asked.creations] == ["t", "u"]


def test_what_two_filters_removed_is_returned_once() -> None:
    types = response_types(ApiKey.DELETE_ACLS, 3)
    match = types.new(
        "DeleteAclsMatchingAcl",
        error_code=ErrorCode.none,
        error_message=None,
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    row = types.new("DeleteAclsFilterResult", error_code=ErrorCode.none, error_message=None, matching_acls=[match])
    requests: Any = Requests(types.message(throttle_time=0, filter_results=[row, row]))
    filters = [AclFilter(name="t"), AclFilter(principal="User:a")]
    assert asyncio.run(AclAdmin(requests).delete(filters)) == [READ]
    assert [each.resource_name_filter for each in requests.asked.filters] == ["t", None]
