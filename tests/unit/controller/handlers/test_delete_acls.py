"""DeleteAcls against a node."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import row
from tests.support.security.guarded_node import guarded_node

OF_ALICE = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:alice",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def test_removed_acls_are_named_and_no_longer_in_force() -> None:
    with guarded_node() as guarded:
        assert len(guarded.call("alice", "metadata of all", ApiKey.METADATA, 4).topics) == 1
        filters = [row("DeleteAclsFilter", **OF_ALICE), row("DeleteAclsFilter", **{**OF_ALICE, "operation": 99})]
        removed, refused = guarded.ask("carol", ApiKey.DELETE_ACLS, 3, filters=filters).filter_results
        assert (removed.error_code, removed.error_message) == (ErrorCode.none, None)
        assert {(each.resource_type, each.resource_name) for each in removed.matching_acls} == {
            (2, "open"),
            (3, "open"),
            (5, "open"),
        }
        assert (refused.error_code, refused.error_message) == (ErrorCode.invalid_request, "Unknown entryFilter.")
        assert guarded.call("alice", "metadata of all", ApiKey.METADATA, 4).topics == ()
        again = guarded.ask("root", ApiKey.DELETE_ACLS, 3, filters=filters[:1]).filter_results
        assert again[0].matching_acls == ()
