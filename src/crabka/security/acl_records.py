"""ACLs as the metadata log stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from crabka.metadata.records import AccessControlEntryRecord
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType, code_of


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """Return the ACL of a record."""
    return Acl(
        code_of(ResourceType, record.resource_type),
        record.resource_name,
        code_of(PatternType, record.pattern_type),
        record.principal,
        record.host,
        code_of(Operation, record.operation),
        code_of(Permission, record.permission_type),
    )


def acls_of(entries: Mapping[UUID, AccessControlEntryRecord]) -> dict[UUID, Acl]:
    """Return the ACLs of an image by their ids."""
    return {acl_id: acl_of(record) for acl_id, record in entries.items()}


def record_of(acl_id: UUID, acl: Acl) -> Any:
    """Return the record of an ACL."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=int(acl.resource_type),
        resource_name=acl.name,
        pattern_type=int(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission),
    )
