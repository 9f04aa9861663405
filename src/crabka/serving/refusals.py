"""How each API of the controller reports an error of the whole request (Kafka's `getErrorResponse`).

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
    from crabka.net.connection import ConnectionInfo
    from crabka.protocol.apis import MessageTypes

    Refusal = Callable[[MessageTypes, Any, dict[str, Any]], Any]

_FIRST_DELETION_WITH_IDS = 6


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
}
