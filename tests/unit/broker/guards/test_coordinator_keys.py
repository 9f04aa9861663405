"""Permissions of FindCoordinator."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.security.guarded_node import GuardedNode


def test_each_key_is_checked(guarded: GuardedNode) -> None:
    for call, code in (
        ("find groups", ErrorCode.group_authorization_failed),
        ("find transactions", ErrorCode.transactional_id_authorization_failed),
    ):
        answer = guarded.call("alice", call, ApiKey.FIND_COORDINATOR, 4)
        rows = {each.key: each for each in answer.coordinators}
        assert (rows["open"].error_code, rows["open"].node_id) == (ErrorCode.none, 1)
        assert (rows["closed"].error_code, rows["closed"].node_id, rows["closed"].host) == (code, -1, "")
        old = guarded.call("alice", call, ApiKey.FIND_COORDINATOR, 3)
        assert (old.error_code, old.node_id) == (code, -1)


def test_coordinators_of_share_groups_are_for_brokers(guarded: GuardedNode) -> None:
    answer = guarded.ask("alice", ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=("open:1:0",))
    assert {each.error_code for each in answer.coordinators} <= {ErrorCode.cluster_authorization_failed}
