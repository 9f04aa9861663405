"""Which ACLs may be created and which are removed."""

from __future__ import annotations

import dataclasses
import itertools
from uuid import UUID

import pytest

from crabka.controller.decisions.security.acls import MAX_RECORDS, create_acls, delete_acls
from crabka.errors import OperationError
from crabka.metadata.image import MetadataImage
from crabka.metadata.security import AclsImage
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acl_records import acl_of, record_of
from crabka.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

GOOD = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


def image(*acls: Acl) -> MetadataImage:
    entries = {UUID(int=number): record_of(UUID(int=number), acl) for number, acl in enumerate(acls, 1)}
    return dataclasses.replace(MetadataImage(), acls=AclsImage(entries))


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        (GOOD._replace(resource_type=ResourceType.ANY), "Invalid resourceType ANY"),
        (GOOD._replace(resource_type=ResourceType.UNKNOWN), "Invalid resourceType UNKNOWN"),
        (GOOD._replace(pattern_type=PatternType.MATCH), "Invalid patternType MATCH"),
        (GOOD._replace(operation=Operation.ANY), "Invalid operation ANY"),
        (GOOD._replace(permission=Permission.ANY), "Invalid permissionType ANY"),
        (GOOD._replace(name=""), "Invalid empty resource name"),
        (
            GOOD._replace(resource_type=ResourceType.CLUSTER),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            GOOD._replace(principal="alice"),
            (
                "Could not parse principal from `alice` "
                "(no colon is present separating the principal type from the principal name)"
            ),
        ),
    ],
)
def test_bad_acls_are_refused_beside_good_ones(acl: Acl, message: str) -> None:
    ids = itertools.count(100)
    outcome = create_acls(image(), [acl, GOOD], lambda: UUID(int=next(ids)))
    assert [each.error_code for each in outcome.result] == [ErrorCode.invalid_request, ErrorCode.none]
    assert outcome.result[0].message == message
    assert [acl_of(record) for record in outcome.records] == [GOOD]


def test_an_acl_is_stored_once_under_an_id_of_its_own() -> None:
    other = GOOD._replace(host="h")
    ids = iter((UUID(int=1), UUID(int=2)))
    outcome = create_acls(image(GOOD), [GOOD, other, other], lambda: next(ids))
    assert {each.error_code for each in outcome.result} == {ErrorCode.none}
    # 1 is taken.
    assert [(record.id, acl_of(record)) for record in outcome.records] == [(UUID(int=2), other)]


def test_too_many_acls_are_refused_as_a_whole() -> None:
    ids = itertools.count(1)
    wanted = [GOOD._replace(name=f"t{number}") for number in range(MAX_RECORDS + 1)]
    outcome = create_acls(image(), [*wanted, GOOD._replace(name="")], lambda: UUID(int=next(ids)))
    assert outcome.records == []
    assert {each.error_code for each in outcome.result} == {ErrorCode.policy_violation, ErrorCode.invalid_request}


def test_filters_remove_what_they_select() -> None:
    stored = image(GOOD, GOOD._replace(name="u"), GOOD._replace(principal="User:b"))
    outcome = delete_acls(
        stored,
        [AclFilter(principal="User:a"), AclFilter(name="t"), AclFilter(operation=Operation.UNKNOWN)],
    )
    assert [len(each.acls) for each in outcome.result] == [2, 2, 0]
    assert outcome.result[2].verdict.message == "Unknown entryFilter."
    assert {record.id.int for record in outcome.records} == {1, 2, 3}
    assert len(outcome.records) == 3
    (refused,) = delete_acls(stored, [AclFilter(pattern_type=PatternType.UNKNOWN)]).result
    assert refused.verdict.message == "Unknown patternFilter."


def test_too_many_removals_are_refused_as_a_whole() -> None:
    stored = image(*(GOOD._replace(name=f"t{number}") for number in range(MAX_RECORDS + 1)))
    with pytest.raises(OperationError, match="Cannot remove more than 10000 acls in a single delete operation"):
        delete_acls(stored, [AclFilter()])
