"""Which ACLs options ask for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from crabka.cli.acls.bundles import Bundle, Grantees, wanted_acls
from crabka.cli.acls.options import Resource
from crabka.errors import ConfigError
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType

TOPIC = Resource(ResourceType.TOPIC, "orders")
GROUP = Resource(ResourceType.GROUP, "billing")
ID = Resource(ResourceType.TRANSACTIONAL_ID, "tx")
CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")
ALICE = Grantees(["User:alice"], [], [])


def short(acls: Sequence[Acl]) -> set[tuple[str, str]]:
    return {(acl.resource_type.name, acl.operation.name) for acl in acls}


def test_bundles_are_those_of_kafka_acls() -> None:
    producer = wanted_acls([TOPIC, ID], [], Bundle(producer=True, idempotent=True), ALICE, prefixed=False)
    assert short(producer) == {
        ("TOPIC", "WRITE"),
        ("TOPIC", "DESCRIBE"),
        ("TOPIC", "CREATE"),
        ("TRANSACTIONAL_ID", "WRITE"),
        ("TRANSACTIONAL_ID", "DESCRIBE"),
        ("CLUSTER", "IDEMPOTENT_WRITE"),
    }
    consumer = wanted_acls([TOPIC, GROUP], [], Bundle(consumer=True), ALICE, prefixed=True)
    assert short(consumer) == {("TOPIC", "READ"), ("TOPIC", "DESCRIBE"), ("GROUP", "READ")}
    assert {acl.pattern_type for acl in consumer} == {PatternType.PREFIXED}
    both = wanted_acls([TOPIC, GROUP], [], Bundle(producer=True, consumer=True), ALICE, prefixed=False)
    assert len(both) == 5


def test_every_user_gets_every_operation_from_every_host() -> None:
    grantees = Grantees(["User:a", "User:b"], ["User:c"], ["10.0.0.1", "10.0.0.2"])
    acls = wanted_acls([TOPIC, CLUSTER], [Operation.ALTER, Operation.ALL], Bundle(), grantees, prefixed=True)
    assert len(acls) == 3 * 2 * 2 * 2
    assert {acl.principal for acl in acls if acl.permission is Permission.DENY} == {"User:c"}
    # Nothing else is called as the cluster is.
    assert {acl.pattern_type for acl in acls if acl.resource_type is ResourceType.CLUSTER} == {PatternType.LITERAL}


@pytest.mark.parametrize(
    ("resources", "operations", "bundle", "grantees", "message"),
    [
        ([TOPIC], [Operation.READ], Bundle(), Grantees([], [], []), "name users: --allow"),
        ([], [Operation.READ], Bundle(), ALICE, "name resources: --topic"),
        ([TOPIC], [], Bundle(), ALICE, "name operations, such as --operation Read"),
        ([TOPIC], [Operation.READ], Bundle(producer=True), ALICE, "take --allow alone"),
        ([TOPIC], [], Bundle(producer=True), Grantees([], ["User:b"], []), "take --allow alone"),
        ([ID], [], Bundle(producer=True), ALICE, "name topics"),
        ([TOPIC], [], Bundle(consumer=True), ALICE, "name the groups of the consumer"),
        ([TOPIC, GROUP], [], Bundle(producer=True), ALICE, "Group is no part of these bundles"),
    ],
)
def test_what_cannot_be_meant_is_said(
    resources: list[Resource], operations: list[Operation], bundle: Bundle, grantees: Grantees, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        wanted_acls(resources, operations, bundle, grantees, prefixed=False)
