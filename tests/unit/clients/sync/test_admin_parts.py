"""Blocking calls about nodes reach the async client over real sockets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from crabka.clients.admin.cluster_types import ElectionKind
from crabka.clients.sync.admin import SyncAdmin
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.kraft.voters import VoterEndpoint
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clusters.loopback import loopback_cluster

T0 = TopicPartition("t", 0)
ENDPOINTS = [VoterEndpoint("C", "h", 1)]


def _refusal(request: ReceivedRequest) -> Any:
    fields: dict[ApiKey, dict[str, Any]] = {
        ApiKey.DESCRIBE_CLUSTER: {"cluster_id": "", "controller_id": -1, "brokers": []},
        ApiKey.DESCRIBE_QUORUM: {"topics": [], "nodes": []},
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {"responses": []},
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": []},
        ApiKey.ELECT_LEADERS: {"replica_election_results": []},
        ApiKey.UPDATE_FEATURES: {"results": []},
    }
    given = fields.get(request.api_key, {})
    if request.api_key is not ApiKey.DESCRIBE_QUORUM:
        given = {"throttle_time": 0, **given}
    if request.api_key is not ApiKey.ELECT_LEADERS:
        given = {"error_message": "no", **given}
    return request.types.message(error_code=ErrorCode.cluster_authorization_failed, **given)


@pytest.mark.parametrize(
    ("api_key", "call"),
    [
        (ApiKey.DESCRIBE_CLUSTER, lambda admin: admin.cluster.describe(include_fenced=True)),
        (ApiKey.UNREGISTER_BROKER, lambda admin: admin.cluster.unregister_broker(1)),
        (ApiKey.DESCRIBE_QUORUM, lambda admin: admin.cluster.describe_quorum()),
        (
            ApiKey.ADD_RAFT_VOTER,
            lambda admin: admin.cluster.add_raft_voter(1, UUID(int=1), ENDPOINTS),
        ),
        (ApiKey.REMOVE_RAFT_VOTER, lambda admin: admin.cluster.remove_raft_voter(1, UUID(int=1))),
        (ApiKey.UPDATE_FEATURES, lambda admin: admin.cluster.update_features({"f": 1})),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, lambda admin: admin.replicas.reassign({T0: [1]})),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, lambda admin: admin.replicas.list_reassignments()),
        (ApiKey.ELECT_LEADERS, lambda admin: admin.replicas.elect_leaders(ElectionKind.PREFERRED)),
    ],
)
def test_a_refusal_reaches_the_caller(api_key: ApiKey, call: Any) -> None:
    with loopback_cluster() as (cluster, bootstrap):
        cluster.brokers[1].answers[api_key] = _refusal
        with SyncAdmin(bootstrap) as admin, pytest.raises(OperationError) as caught:
            call(admin)
    assert caught.value.error_code is ErrorCode.cluster_authorization_failed


def test_features_and_controllers_are_asked_for() -> None:
    with loopback_cluster() as (cluster, bootstrap):
        with SyncAdmin(bootstrap) as admin:
            assert admin.cluster.describe_features() == {}
        cluster.brokers[1].answers[ApiKey.DESCRIBE_CLUSTER] = _refusal
        with SyncAdmin(bootstrap, of_controllers=True) as admin, pytest.raises(OperationError):
            admin.cluster.describe()
        assert cluster.asked(ApiKey.DESCRIBE_CLUSTER)[-1].body.endpoint_type == 2
