"""Which permissions each API of a controller needs: one row for every API that it serves."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from crabka.controller.guards import topics
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Operation
from crabka.serving.access import config_rows
from crabka.serving.access.guard import BEFORE_LOGIN, Admission, Check, Guards, Row, cluster_row
from crabka.serving.authorized_operations import UNASKED_OPERATIONS

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

# Requests of other nodes.
_OF_NODES: Final = (
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
)
_ALTERING: Final = (
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
_DESCRIBING: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_QUORUM, ApiKey.LIST_PARTITION_REASSIGNMENTS)


def _describe_cluster(access: Access, _context: ControllerContext, request: Request) -> Admission:
    access.require_cluster(request, Operation.ALTER)

    def finish(response: Any) -> Any:
        if response.error_code is not ErrorCode.none or response.cluster_authorized_operations == UNASKED_OPERATIONS:
            return response
        return dataclasses.replace(response, cluster_authorized_operations=access.cluster_operations(request))

    return Admission(request, finish)


GUARDS: Final[Guards] = {
    **dict.fromkeys(_OF_NODES, cluster_row(Operation.CLUSTER_ACTION)),
    **dict.fromkeys(_ALTERING, cluster_row(Operation.ALTER)),
    **dict.fromkeys(_DESCRIBING, cluster_row(Operation.DESCRIBE)),
    ApiKey.API_VERSIONS: BEFORE_LOGIN,
    ApiKey.SASL_HANDSHAKE: BEFORE_LOGIN,
    ApiKey.SASL_AUTHENTICATE: BEFORE_LOGIN,
    ApiKey.CREATE_TOPICS: topics.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS: topics.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS: topics.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_CONFIGS: config_rows.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS: config_rows.ALTER_CONFIGS_OF_CONTROLLER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: config_rows.ALTER_CONFIGS_OF_CONTROLLER,
    ApiKey.ALTER_CLIENT_QUOTAS: cluster_row(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_CLUSTER: Row(
        (
            Check(Operation.ALTER, "Cluster", "CLUSTER_AUTHORIZATION_FAILED"),
            Check(Operation.DESCRIBE, "Cluster", "0", "authorized operations of the cluster"),
        ),
        _describe_cluster,
    ),
}
