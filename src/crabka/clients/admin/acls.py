"""Administration of ACLs (KIP-140)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crabka.clients.admin.requests import AdminRequests, check
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType, code_of


class AclAdmin:
    """Calls about ACLs. All raise OperationError: security_disabled, cluster_authorization_failed, invalid_request."""

    def __init__(self, requests: AdminRequests) -> None:
        self._ask = requests.ask

    async def describe(self, wanted: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter selects."""
        response = await self._ask(
            ApiKey.DESCRIBE_ACLS,
            lambda types: types.message(
                resource_type_filter=int(wanted.resource_type),
                resource_name_filter=wanted.name,
                pattern_type_filter=int(wanted.pattern_type),
                **_entry_filter(wanted),
            ),
        )
        check(response, "ACLs")
        return [
            _acl(resource.resource_type, resource.resource_name, resource.pattern_type, entry)
            for resource in response.resources
            for entry in resource.acls
        ]

    async def create(self, acls: Sequence[Acl]) -> None:
        """Create ACLs; one that is there already stays. All are tried, then the first error is raised."""

        def build(types: MessageTypes) -> Any:
            return types.message(creations=[_creation(types, acl) for acl in acls])

        response = await self._ask(ApiKey.CREATE_ACLS, build)
        for acl, result in zip(acls, response.results, strict=True):
            check(result, str(acl))

    async def delete(self, filters: Sequence[AclFilter]) -> list[Acl]:
        """Delete what filters select and return it. All are tried, then the first error is raised."""

        def build(types: MessageTypes) -> Any:
            return types.message(
                filters=[
                    types.new(
                        "DeleteAclsFilter",
                        resource_type_filter=int(each.resource_type),
                        resource_name_filter=each.name,
                        pattern_type_filter=int(each.pattern_type),
                        **_entry_filter(each),
                    )
                    for each in filters
                ]
            )

        response = await self._ask(ApiKey.DELETE_ACLS, build)
        deleted: dict[Acl, None] = {}
        for result in response.filter_results:
            check(result, "ACLs")
            for match in result.matching_acls:
                check(match, match.resource_name)
                deleted[_acl(match.resource_type, match.resource_name, match.pattern_type, match)] = None
        return list(deleted)


def _entry_filter(wanted: AclFilter) -> dict[str, Any]:
    return {
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": int(wanted.operation),
        "permission_type": int(wanted.permission),
    }


def _creation(types: MessageTypes, acl: Acl) -> Any:
    return types.new(
        "AclCreation",
        resource_type=int(acl.resource_type),
        resource_name=acl.name,
        resource_pattern_type=int(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission),
    )


def _acl(resource_type: int, name: str, pattern_type: int, entry: Any) -> Acl:
    return Acl(
        code_of(ResourceType, resource_type),
        name,
        code_of(PatternType, pattern_type),
        entry.principal,
        entry.host,
        code_of(Operation, entry.operation),
        code_of(Permission, entry.permission_type),
    )
