"""Questions to the authorizer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from crabka.errors import OperationError
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from crabka.security.principal import Principal
from crabka.security.standard_authorizer import StandardAuthorizer
from crabka.serving.access.access import REQUESTER_LIMIT, Access
from crabka.serving.access.audit import AuditLog
from crabka.serving.request import Request

_NOON: Any = SimpleNamespace(now_ms=lambda: 43_200_000)
READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "0:0:0:0:0:0:0:1", Operation.READ, Permission.ALLOW)


def access(*acls: Acl) -> Access:
    authorizer = StandardAuthorizer({})
    authorizer.load({UUID(int=number): acl for number, acl in enumerate(acls, 1)})
    return Access(authorizer, AuditLog(_NOON))


def request(user: str = "a", host: str = "::1") -> Request:
    connection = ConnectionInfo(1, "PLAINTEXT", host, 1, principal=Principal("User", user))
    return Request(ApiKey.METADATA, 12, 1, "c", None, connection)


def test_hosts_of_acls_are_written_as_java_writes_addresses() -> None:
    asked = access(READ)
    assert asked.allows(request(), Operation.READ, ResourceType.TOPIC, "t")
    assert not asked.allows(request(host="::2"), Operation.READ, ResourceType.TOPIC, "t")
    assert not asked.allows(request("b"), Operation.READ, ResourceType.TOPIC, "t")


def test_operations_are_a_set_of_bits() -> None:
    bits = access(READ).operations(request(), ResourceType.TOPIC, "t")
    assert bits == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_operations_on_the_cluster_are_for_those_who_may_describe_it() -> None:
    alter = READ._replace(resource_type=ResourceType.CLUSTER, name=CLUSTER_NAME, operation=Operation.CREATE)
    assert access(alter).cluster_operations(request()) == 0
    both = access(alter, alter._replace(operation=Operation.DESCRIBE))
    assert both.cluster_operations(request()) == 1 << Operation.CREATE | 1 << Operation.DESCRIBE


def test_an_operation_on_the_cluster_can_be_required() -> None:
    with pytest.raises(OperationError) as caught:
        access().require_cluster(request(), Operation.ALTER)
    assert caught.value.error_code is ErrorCode.cluster_authorization_failed


def test_remembered_requesters_are_bounded() -> None:
    asked = access(READ)
    for number in range(REQUESTER_LIMIT + 5):
        asked.allows(request(f"u{number}"), Operation.READ, ResourceType.TOPIC, "t")
    assert len(asked._requesters) == 5
