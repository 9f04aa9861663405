"""How each API reports an error of the whole request (Kafka's `getErrorResponse`).

Some have a code for the request, others only one for each item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.ids import ZERO_UUID
from crabka.protocol.apis import ApiKey, encode_response, read_request, response_types
from crabka.protocol.error_codes import error_message
from crabka.protocol.headers import pack_response, parse_request_header
from crabka.serving.authorized_operations import UNASKED_OPERATIONS
from crabka.serving.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.errors import OperationError
    from crabka.net.dispatch import ConnectionInfo
    from crabka.protocol.apis import MessageTypes

    Refusal = Callable[[MessageTypes, Any, dict[str, Any]], Any]

_FIRST_DELETION_WITH_IDS = 6
_FIRST_JOIN_WITH_NULL_PROTOCOL = 7


def refuse(request: Request, error: OperationError) -> Any:
    """Return the response to a request that failed as a whole."""
    types = response_types(request.api_key, request.version)
    fault = {"error_code": error.error_code, "error_message": error.message or error_message(error.error_code)}
    build = _BY_ITEM.get(request.api_key)
    if build is not None:
        return build(types, request.body, fault)
    fields = {"throttle_time": 0, **fault, **_EMPTY.get(request.api_key, {})}
    return types.message(**{name: value for name, value in fields.items() if types.has_field(types.message_name, name)})


def refuse_frame(frame: memoryview, connection: ConnectionInfo, error: OperationError) -> bytes:
    """Return the frame that answers a request frame with an error. Raises WireError."""
    header = parse_request_header(frame)
    body = read_request(header.api_key, header.api_version, frame, header.body_offset)
    request = Request(header.api_key, header.api_version, header.correlation_id, header.client_id, body, connection)
    return pack_response(
        header.api_key, header.api_version, header.correlation_id, encode_response(refuse(request, error))
    )


def _create_topics(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [
        types.new(
            "CreatableTopicResult",
            name=topic.name,
            topic_id=ZERO_UUID,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
            **fault,
        )
        for topic in body.topics
    ]
    return types.message(throttle_time=0, topics=rows)


def _delete_topics(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    if types.version >= _FIRST_DELETION_WITH_IDS:
        wanted = [(topic.name, topic.topic_id or ZERO_UUID) for topic in body.topics]
    else:
        wanted = [(name, ZERO_UUID) for name in body.topic_names]
    rows = [types.new("DeletableTopicResult", name=name, topic_id=topic_id, **fault) for name, topic_id in wanted]
    return types.message(throttle_time=0, responses=rows)


def _create_partitions(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [types.new("CreatePartitionsTopicResult", name=topic.name, **fault) for topic in body.topics]
    return types.message(throttle_time=0, results=rows)


def _alter_configs(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [
        types.new(
            "AlterConfigsResourceResponse",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            **fault,
        )
        for resource in body.resources
    ]
    return types.message(throttle_time=0, responses=rows)


def _elect_leaders(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [
        types.new(
            "ReplicaElectionResult",
            topic=topic.topic,
            partition_result=[types.new("PartitionResult", partition_id=index, **fault) for index in topic.partitions],
        )
        for topic in body.topic_partitions or ()
    ]
    return types.message(throttle_time=0, error_code=fault["error_code"], replica_election_results=rows)


def _alter_reassignments(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [
        types.new(
            "ReassignableTopicResponse",
            name=topic.name,
            partitions=[
                types.new("ReassignablePartitionResponse", partition_index=each.partition_index, **fault)
                for each in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    return types.message(throttle_time=0, allow_replication_factor_change=True, responses=rows, **fault)


def _alter_quotas(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [
        types.new(
            "EntryData",
            entity=[
                types.new("EntityData", entity_type=part.entity_type, entity_name=part.entity_name)
                for part in entry.entity
            ],
            **fault,
        )
        for entry in body.entries
    ]
    return types.message(throttle_time=0, entries=rows)


def _alter_scram(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    users = dict.fromkeys(each.name for each in (*body.deletions, *body.upsertions))
    rows = [types.new("AlterUserScramCredentialsResult", user=user, **fault) for user in users]
    return types.message(throttle_time=0, results=rows)


def _create_acls(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    return types.message(throttle_time=0, results=[types.new("AclCreationResult", **fault) for _ in body.creations])


def _delete_acls(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [types.new("DeleteAclsFilterResult", matching_acls=(), **fault) for _ in body.filters]
    return types.message(throttle_time=0, filter_results=rows)


def _update_features(types: MessageTypes, _body: Any, fault: dict[str, Any]) -> Any:
    return types.message(throttle_time=0, results=(), **fault)


def _by_topic(prefix: str) -> Refusal:
    """Return the refusal of an API that has errors of partitions only, in a field `topics`."""

    def build(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
        code = fault["error_code"]
        topics = []
        for topic in body.topics:
            rows = [
                types.new(f"{prefix}ResponsePartition", partition_index=each.partition_index, error_code=code)
                for each in topic.partitions
            ]
            fields = {"name": getattr(topic, "name", None), "topic_id": getattr(topic, "topic_id", None)}
            known = {key: value for key, value in fields.items() if types.has_field(f"{prefix}ResponseTopic", key)}
            topics.append(types.new(f"{prefix}ResponseTopic", partitions=rows, **known))
        return types.message(throttle_time=0, topics=topics)

    return build


def _add_partitions_to_txn(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    code = fault["error_code"]
    if types.has_field(types.message_name, "error_code"):
        return types.message(throttle_time=0, error_code=code, results_by_transaction=())
    rows = [
        types.new(
            "AddPartitionsToTxnTopicResult",
            name=topic.name,
            results_by_partition=[
                types.new("AddPartitionsToTxnPartitionResult", partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in body.v3_and_below_topics
    ]
    return types.message(throttle_time=0, results_by_topic_v3_and_below=rows)


def _write_txn_markers(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    def topic_row(topic: Any) -> Any:
        rows = [
            types.new("WritableTxnMarkerPartitionResult", partition_index=index, error_code=fault["error_code"])
            for index in topic.partition_indexes
        ]
        return types.new("WritableTxnMarkerTopicResult", name=topic.name, partitions=rows)

    rows = [
        types.new(
            "WritableTxnMarkerResult",
            producer_id=marker.producer_id,
            topics=[topic_row(topic) for topic in marker.topics],
        )
        for marker in body.markers
    ]
    return types.message(markers=rows)


def _alter_replica_log_dirs(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [
        types.new(
            "AlterReplicaLogDirTopicResult",
            topic_name=topic.name,
            partitions=[
                types.new("AlterReplicaLogDirPartitionResult", partition_index=index, error_code=fault["error_code"])
                for index in topic.partitions
            ],
        )
        for directory in body.dirs
        for topic in directory.topics
    ]
    return types.message(throttle_time=0, results=rows)


def _describe_scram(types: MessageTypes, body: Any, fault: dict[str, Any]) -> Any:
    rows = [
        types.new("DescribeUserScramCredentialsResult", user=user.name, credential_infos=(), **fault)
        for user in body.users or ()
    ]
    return types.message(throttle_time=0, results=rows, **fault)


def _join_group(types: MessageTypes, _body: Any, fault: dict[str, Any]) -> Any:
    return types.message(
        throttle_time=0,
        error_code=fault["error_code"],
        generation_id=-1,
        protocol_type=None,
        protocol_name="" if types.version < _FIRST_JOIN_WITH_NULL_PROTOCOL else None,
        leader="",
        skip_assignment=False,
        member_id="",
        members=(),
    )


# Values of the other fields where the schema has no default.
_EMPTY: dict[int, dict[str, Any]] = {
    ApiKey.ALTER_PARTITION: {"topics": ()},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {"directories": ()},
    ApiKey.BROKER_REGISTRATION: {"broker_epoch": -1},
    ApiKey.BROKER_HEARTBEAT: {"is_caught_up": False, "is_fenced": True, "should_shut_down": False},
    ApiKey.ALLOCATE_PRODUCER_IDS: {"producer_id_start": 0, "producer_id_len": 0},
    ApiKey.DESCRIBE_CLUSTER: {
        "endpoint_type": 1,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": (),
        "cluster_authorized_operations": UNASKED_OPERATIONS,
    },
    ApiKey.DESCRIBE_QUORUM: {"topics": (), "nodes": ()},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": ()},
    ApiKey.DESCRIBE_ACLS: {"resources": ()},
    ApiKey.SYNC_GROUP: {"protocol_type": None, "protocol_name": None, "assignment": b""},
    ApiKey.LEAVE_GROUP: {"members": ()},
    ApiKey.OFFSET_DELETE: {"topics": ()},
    ApiKey.INIT_PRODUCER_ID: {"producer_id": -1, "producer_epoch": -1},
    ApiKey.END_TXN: {"producer_id": -1, "producer_epoch": -1},
    ApiKey.DESCRIBE_LOG_DIRS: {"results": ()},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
    ApiKey.LIST_CONFIG_RESOURCES: {"config_resources": ()},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval": 0,
        "assignment": None,
    },
    ApiKey.FIND_COORDINATOR: {"node_id": -1, "host": "", "port": -1, "coordinators": ()},
    ApiKey.FETCH: {"responses": ()},
    ApiKey.FETCH_SNAPSHOT: {"topics": ()},
    ApiKey.VOTE: {"topics": ()},
    ApiKey.BEGIN_QUORUM_EPOCH: {"topics": ()},
    ApiKey.END_QUORUM_EPOCH: {"topics": ()},
    ApiKey.ENVELOPE: {"response_data": None},
}
_BY_ITEM: dict[int, Refusal] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_reassignments,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_scram,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.OFFSET_COMMIT: _by_topic("OffsetCommit"),
    ApiKey.TXN_OFFSET_COMMIT: _by_topic("TxnOffsetCommit"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_scram,
}
