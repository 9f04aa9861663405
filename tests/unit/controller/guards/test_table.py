"""Permissions of the controller listener."""

from __future__ import annotations

from crabka.controller.guards.table import GUARDS
from crabka.protocol.apis import ApiKey
from crabka.security.acls import Operation
from tests.support.nodes.sim_node import build
from tests.support.security.guarded_node import guarded_node


def test_requests_of_nodes_need_cluster_action() -> None:
    needing = {
        key for key, row in GUARDS.items() if [check.operation for check in row.checks] == [Operation.CLUSTER_ACTION]
    }
    assert {ApiKey.VOTE, ApiKey.FETCH, ApiKey.ENVELOPE, ApiKey.BROKER_REGISTRATION, ApiKey.ALTER_PARTITION} < needing


def test_a_user_may_not_act_as_a_node() -> None:
    with guarded_node() as guarded:
        # Connections to the controller listener are anonymous here.
        assert guarded.sim.node is not None
        client = guarded.sim.connect(int(guarded.sim.node.bootstrap_controllers.rpartition(":")[2]))
        body = build(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=1, broker_epoch=1)
        client.post(ApiKey.ALLOCATE_PRODUCER_IDS, 0, body)
        _, answer = guarded.sim.run(client.response(ApiKey.ALLOCATE_PRODUCER_IDS, 0))
        assert answer.error_code.name == "cluster_authorization_failed"
        body = build(ApiKey.ENVELOPE, 0, request_data=b"", request_principal=None, client_host_address=b"1234")
        client.post(ApiKey.ENVELOPE, 0, body)
        _, answer = guarded.sim.run(client.response(ApiKey.ENVELOPE, 0))
        assert answer.error_code.name == "cluster_authorization_failed"
