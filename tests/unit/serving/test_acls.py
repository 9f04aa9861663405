"""Requests about ACLs, of brokers and controllers, with and without an authorizer."""

from __future__ import annotations

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.acls import NO_AUTHORIZER
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import SimNode, row, versions_of
from tests.support.quorum.sim_controllers import SimControllers, run_controllers
from tests.support.security.calls import ACLS
from tests.support.security.guarded_node import guarded_node


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_ACLS))
def test_describe_acls_is_refused_in_every_version(node: SimNode, version: int) -> None:
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
    message = "No Authorizer is configured on the broker"
    assert (answer.error_code, answer.error_message) == (ErrorCode.security_disabled, message)
    assert answer.resources == ()


@run_with(run_controllers, 3)
async def test_controllers_refuse_as_well(cluster: SimControllers, /) -> None:
    filters = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }

    answer = await (await cluster.passive()).ask(ApiKey.DESCRIBE_ACLS, 3, **filters)
    assert (answer.error_code, answer.resources) == (ErrorCode.security_disabled, ())


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_ACLS))
def test_create_acls_is_refused_in_every_version(node: SimNode, version: int) -> None:
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


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_ACLS))
def test_delete_acls_is_refused_in_every_version(node: SimNode, version: int) -> None:
    answer = node.ask(
        ApiKey.DELETE_ACLS,
        version,
        filters=[
            row(
                "DeleteAclsFilter",
                resource_type_filter=2,
                resource_name_filter=None,
                pattern_type_filter=3,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ],
    )
    (refused,) = answer.filter_results
    assert (refused.error_code, refused.error_message) == (ErrorCode.security_disabled, NO_AUTHORIZER)
    assert refused.matching_acls == ()


def test_code_and_message_are_those_of_kafka() -> None:
    assert (int(ErrorCode.security_disabled), NO_AUTHORIZER) == (54, "No Authorizer is configured.")


def test_acls_are_described_by_the_patterns_of_their_resources() -> None:
    with guarded_node() as guarded:
        everything = {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        }
        answer = guarded.ask("carol", ApiKey.DESCRIBE_ACLS, 3, **everything)
        assert {
            (
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                acl.principal,
                acl.operation,
                acl.permission_type,
            )
            for each in answer.resources
            for acl in each.acls
        } == {
            (acl.resource_type, acl.name, acl.pattern_type, acl.principal, acl.operation, acl.permission)
            for acl in ACLS
        }
        topics = {**everything, "resource_type_filter": 2, "resource_name_filter": "open-x", "pattern_type_filter": 2}
        matching = guarded.ask("root", ApiKey.DESCRIBE_ACLS, 3, **topics)
        assert {(each.resource_name, each.pattern_type) for each in matching.resources} == {("open", 4), ("*", 3)}
        refused = guarded.ask("bob", ApiKey.DESCRIBE_ACLS, 3, **everything)
        assert (refused.error_code, refused.resources) == (ErrorCode.cluster_authorization_failed, ())
