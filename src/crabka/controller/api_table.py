"""Which APIs the controller listener serves; versions come from Kafka's specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.protocol.apis import ApiKey
from crabka.serving import acls
from crabka.serving.api_table import ApiTable
from crabka.serving.logins.late_logins import LATE_LOGINS

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request

# Requests that concern the quorum itself. The consensus core answers them, whichever controller is active.
QUORUM_KEYS = (
    # The metadata log for followers and observers (KIP-595), and its snapshots in pieces (KIP-630).
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    # Votes and pre-votes (KIP-595, KIP-996), a new leader announces itself, a leader resigns and names its successors.
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    # The state of the quorum, which only its leader knows (KIP-836, KIP-853).
    ApiKey.DESCRIBE_QUORUM,
    # Changes of the voter set: at most one at a time (KIP-853). UpdateRaftVoter reports endpoints and kraft.version.
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
)

# Each has a module of its own in `handlers`.
HANDLED_KEYS = (
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_PARTITION,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ENVELOPE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
)


def ask_quorum(context: ControllerContext, request: Request) -> Awaitable[Any]:
    """Return a future of the response's body; cancelling it drops a request that waits."""
    return context.quorum.handle(
        ApiKey(request.api_key), request.version, request.body, listener=request.connection.listener
    )


TABLE = ApiTable(
    sorted((*HANDLED_KEYS, *QUORUM_KEYS, ApiKey.DESCRIBE_ACLS, *LATE_LOGINS)),
    "crabka.controller.handlers",
    shared={**dict.fromkeys(QUORUM_KEYS, ask_quorum), ApiKey.DESCRIBE_ACLS: acls.describe_acls, **LATE_LOGINS},
)
