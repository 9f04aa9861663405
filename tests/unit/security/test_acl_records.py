"""ACLs and their records."""

from __future__ import annotations

from uuid import UUID

from crabka.security.acl_records import acl_of, acls_of, record_of
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType

ACL = Acl(ResourceType.GROUP, "g", PatternType.PREFIXED, "User:a", "10.0.0.1", Operation.READ, Permission.DENY)


def test_a_record_has_all_of_an_acl() -> None:
    record = record_of(UUID(int=7), ACL)
    assert acl_of(record) == ACL
    assert acls_of({record.id: record}) == {UUID(int=7): ACL}
