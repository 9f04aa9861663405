"""Which permissions each API of a broker needs: one row for every API that it serves."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from crabka.broker.api_table import FORWARDED_KEYS
from crabka.broker.guards import coordinator_keys, groups, metadata, records, topic_rows, transactions
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Operation
from crabka.serving.access import config_rows
from crabka.serving.access.guard import BEFORE_LOGIN, Admission, Answered, Check, Guards, Row, cluster_row
from crabka.serving.authorized_operations import UNASKED_OPERATIONS

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

FORWARDED: Final = Row(note="checked by the active controller, for the client that sent it")


def _leader_epochs(access: Access, context: BrokerContext, request: Request) -> Admission | Answered:
    if access.allows_cluster(request, Operation.CLUSTER_ACTION, logs_denial=False):
        return Admission(request)
    return topic_rows.LEADER_EPOCHS.guard(access, context, request)


def _describe_cluster(access: Access, _context: BrokerContext, request: Request) -> Admission:
    if not request.body.include_cluster_authorized_operations:
        return Admission(request)

    def finish(response: Any) -> Any:
        if response.error_code is not ErrorCode.none or response.cluster_authorized_operations == UNASKED_OPERATIONS:
            return response
        return dataclasses.replace(response, cluster_authorized_operations=access.cluster_operations(request))

    return Admission(request, finish)


GUARDS: Final[Guards] = {
    ApiKey.PRODUCE: records.PRODUCE,
    ApiKey.FETCH: records.FETCH,
    ApiKey.LIST_OFFSETS: topic_rows.LIST_OFFSETS.row,
    ApiKey.METADATA: metadata.METADATA,
    ApiKey.OFFSET_COMMIT: groups.COMMIT,
    ApiKey.OFFSET_FETCH: groups.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR: coordinator_keys.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP: groups.MEMBER,
    ApiKey.HEARTBEAT: groups.MEMBER,
    ApiKey.LEAVE_GROUP: groups.MEMBER,
    ApiKey.SYNC_GROUP: groups.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS: groups.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS: groups.LIST_GROUPS,
    ApiKey.API_VERSIONS: BEFORE_LOGIN,
    ApiKey.SASL_HANDSHAKE: BEFORE_LOGIN,
    ApiKey.SASL_AUTHENTICATE: BEFORE_LOGIN,
    ApiKey.DELETE_RECORDS: topic_rows.DELETE_RECORDS.row,
    ApiKey.INIT_PRODUCER_ID: transactions.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(
        (
            Check(Operation.CLUSTER_ACTION, "Cluster", "the next check"),
            Check(Operation.DESCRIBE, "Topic", "TOPIC_AUTHORIZATION_FAILED"),
        ),
        _leader_epochs,
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.ADD_PARTITIONS,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.ADD_OFFSETS,
    ApiKey.END_TXN: transactions.END_TXN,
    ApiKey.WRITE_TXN_MARKERS: transactions.WRITE_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT: transactions.COMMIT,
    ApiKey.DESCRIBE_ACLS: cluster_row(Operation.DESCRIBE),
    ApiKey.DESCRIBE_CONFIGS: config_rows.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS: config_rows.ALTER_CONFIGS_OF_BROKER,
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster_row(Operation.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: cluster_row(Operation.DESCRIBE),
    ApiKey.DELETE_GROUPS: groups.DELETE_GROUPS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: config_rows.ALTER_CONFIGS_OF_BROKER,
    ApiKey.OFFSET_DELETE: groups.DELETE_OFFSETS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster_row(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster_row(Operation.DESCRIBE),
    ApiKey.DESCRIBE_CLUSTER: Row(
        (Check(Operation.DESCRIBE, "Cluster", "0", "authorized operations of the cluster"),), _describe_cluster
    ),
    ApiKey.DESCRIBE_PRODUCERS: topic_rows.DESCRIBE_PRODUCERS.row,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS: transactions.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.CONSUMER_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.CONSUMER_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES: cluster_row(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.DESCRIBE_TOPIC_PARTITIONS,
    **dict.fromkeys(sorted(FORWARDED_KEYS), FORWARDED),
}
