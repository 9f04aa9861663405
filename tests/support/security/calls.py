"""One request of every API about things that a user may and may not use, and the error codes of its answer.

A cluster has the topics `open` and `closed`; groups and transactional ids need not exist. `ACLS` give alice everything
that is called open, carol the cluster and a denial of the open topic, bob nothing. `root` is a super user.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from tests.support.nodes.sim_node import build, row

USERS: Final = ("root", "alice", "bob", "carol")
TOPICS: Final = ("open", "closed")
_ALL = Operation.ALL


def _acl(
    kind: ResourceType, name: str, user: str, operation: Operation, permission: Permission = Permission.ALLOW
) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, permission)


ACLS: Final = (
    Acl(ResourceType.TOPIC, "open", PatternType.PREFIXED, "User:alice", "*", _ALL, Permission.ALLOW),
    Acl(ResourceType.GROUP, "open", PatternType.PREFIXED, "User:alice", "*", _ALL, Permission.ALLOW),
    Acl(ResourceType.TRANSACTIONAL_ID, "open", PatternType.PREFIXED, "User:alice", "*", _ALL, Permission.ALLOW),
    _acl(ResourceType.CLUSTER, CLUSTER_NAME, "carol", _ALL),
    _acl(ResourceType.TOPIC, "*", "carol", Operation.DESCRIBE),
    _acl(ResourceType.TOPIC, "open", "carol", _ALL, Permission.DENY),
)

TopicIds = dict[str, UUID]
Fields = Callable[[int, TopicIds], dict[str, Any]]


def _fixed(**fields: Any) -> Fields:
    return lambda _version, _ids: fields


def _topics(name: str, field: str, partitions: str, first_with_ids: int = 99) -> Fields:
    """Return the topics `open`, `closed` and `missing` with one partition each, which is given by its number."""

    def fields(version: int, ids: TopicIds) -> dict[str, Any]:
        rows = []
        for topic in (*TOPICS, "missing"):
            key = {"topic_id": ids.get(topic, UUID(int=1))} if version >= first_with_ids else {field: topic}
            rows.append(row(name, **key, **{partitions: (0,)}))
        return {"topics": rows}

    return fields


def _partitions(
    name: str, partition: str, first_with_ids: int = 99, /, *, topic: str = "name", **values: Any
) -> Fields:
    """Return the same topics with a structure for each partition."""

    def fields(version: int, ids: TopicIds) -> dict[str, Any]:
        rows = []
        for each in (*TOPICS, "missing"):
            key = {"topic_id": ids.get(each, UUID(int=1))} if version >= first_with_ids else {topic: each}
            rows.append(row(name, **key, partitions=[row(partition, **values)]))
        return {"topics": rows}

    return fields


def _with(fields: Fields, **more: Any) -> Fields:
    return lambda version, ids: {**fields(version, ids), **more}


def _metadata(version: int, ids: TopicIds) -> dict[str, Any]:
    rows = [
        row("MetadataRequestTopic", name=name, topic_id=UUID(int=0)) for name in (*TOPICS, "open-missing", "missing")
    ]
    flags = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    return {"topics": rows, "allow_auto_topic_creation": False, **flags}


def _all_metadata(version: int, _ids: TopicIds) -> dict[str, Any]:
    return {**_metadata(version, _ids), "topics": [] if version == 0 else None}


def _produce(version: int, ids: TopicIds) -> dict[str, Any]:
    records = build_batch([Record(0, 1_767_225_600_000, None, b"v")])
    rows = []
    for topic in (*TOPICS, "missing"):
        key = {"topic_id": ids.get(topic, UUID(int=1))} if version >= 13 else {"name": topic}
        rows.append(
            row("TopicProduceData", **key, partition_data=[row("PartitionProduceData", index=0, records=records)])
        )
    return {"transactional_id": None, "acks": 1, "timeout": 5000, "topic_data": rows}


def _transactional_produce(transactional_id: str) -> Fields:
    def fields(_version: int, _ids: TopicIds) -> dict[str, Any]:
        records = build_batch(
            [Record(0, 1_767_225_600_000, None, b"v")],
            producer_id=999,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        data = [
            row(
                "TopicProduceData",
                name="closed",
                partition_data=[row("PartitionProduceData", index=0, records=records)],
            )
        ]
        return {"transactional_id": transactional_id, "acks": 1, "timeout": 5000, "topic_data": data}

    return fields


def _fetch(replica_id: int) -> Fields:
    def fields(version: int, ids: TopicIds) -> dict[str, Any]:
        rows = []
        for topic in TOPICS:
            key = {"topic_id": ids[topic]} if version >= 13 else {"topic": topic}
            partition = row(
                "FetchPartition",
                partition=0,
                current_leader_epoch=-1,
                fetch_offset=0,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=1000,
            )
            rows.append(row("FetchTopic", **key, partitions=[partition]))
        state = {"replica_state": row("ReplicaState", replica_id=replica_id, replica_epoch=-1)} if version >= 15 else {}
        return {
            "replica_id": replica_id,
            **state,
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 100_000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": rows,
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    return fields


def _offset_fetch(version: int, ids: TopicIds) -> dict[str, Any]:
    suffix = "s" if version >= 8 else ""
    topics = []
    for topic in TOPICS:
        key = {"topic_id": ids[topic]} if version >= 10 else {"name": topic}
        topics.append(row(f"OffsetFetchRequestTopic{suffix}", **key, partition_indexes=(0,)))
    if version < 8:
        return {"group_id": "open", "topics": topics, "require_stable": False}
    groups = [
        row("OffsetFetchRequestGroup", group_id=name, member_id=None, member_epoch=-1, topics=topics)
        for name in ("open", "closed")
    ]
    groups.append(row("OffsetFetchRequestGroup", group_id="open-all", member_id=None, member_epoch=-1, topics=None))
    return {"groups": groups, "require_stable": False}


def _coordinator(key_type: int) -> Fields:
    def fields(version: int, _ids: TopicIds) -> dict[str, Any]:
        keys = {"coordinator_keys": ("open", "closed")} if version >= 4 else {"key": "closed"}
        return {"key_type": key_type, **keys}

    return fields


def _add_partitions(version: int, _ids: TopicIds) -> dict[str, Any]:
    topics = [row("AddPartitionsToTxnTopic", name=name, partitions=(0,)) for name in TOPICS]
    if version < 4:
        return {
            "v3_and_below_transactional_id": "open",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": topics,
        }
    transaction = row(
        "AddPartitionsToTxnTransaction",
        transactional_id="open",
        producer_id=1,
        producer_epoch=0,
        verify_only=True,
        topics=topics,
    )
    return {"transactions": [transaction]}


def _create_topics(_version: int, _ids: TopicIds) -> dict[str, Any]:
    topics = [
        row("CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=(), configs=[])
        for name in ("open-new", "new")
    ]
    return {"topics": topics, "timeout": 5000, "validate_only": True}


def _delete_topics(version: int, ids: TopicIds) -> dict[str, Any]:
    if version < 6:
        return {"topic_names": ("missing", "open-missing", "closed-x"), "timeout": 5000}
    names = [row("DeleteTopicState", name=name, topic_id=UUID(int=0)) for name in ("missing", "open-missing")]
    return {"topics": [*names, row("DeleteTopicState", name=None, topic_id=UUID(int=77))], "timeout": 5000}


def _configs(kind: str, flag: str, **row_fields: Any) -> Fields:
    def fields(_version: int, _ids: TopicIds) -> dict[str, Any]:
        resources = [
            row(kind, resource_type=resource_type, resource_name=name, **row_fields)
            for resource_type, name in ((2, "open"), (2, "closed"), (32, "open"), (32, "closed"), (4, ""))
        ]
        return {"resources": resources, flag: True}

    return fields


_ACL_FILTER: Final = {
    "resource_type_filter": 7,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_BAD_ACL: Final = {
    "resource_type": 4,
    "resource_name": "other-cluster",
    "resource_pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_MARKER: Final = row(
    "WritableTxnMarker",
    producer_id=1,
    producer_epoch=0,
    transaction_result=False,
    topics=[row("WritableTxnMarkerTopic", name="missing", partition_indexes=(0,))],
    coordinator_epoch=0,
    transaction_version=1,
)
_QUOTA: Final = row(
    "EntryData",
    entity=[row("EntityData", entity_type="user", entity_name="x")],
    ops=[row("OpData", key="producer_byte_rate", value=1.0, remove=False)],
)

CALLS: Final[dict[str, tuple[ApiKey, Fields]]] = {
    "produce": (ApiKey.PRODUCE, _produce),
    "fetch": (ApiKey.FETCH, _fetch(-1)),
    "list offsets": (
        ApiKey.LIST_OFFSETS,
        _with(
            _partitions(
                "ListOffsetsTopic",
                "ListOffsetsPartition",
                partition_index=0,
                current_leader_epoch=-1,
                timestamp=-1,
            ),
            replica_id=-1,
            isolation_level=0,
            timeout=1000,
        ),
    ),
    "metadata": (ApiKey.METADATA, _metadata),
    "metadata of all": (ApiKey.METADATA, _all_metadata),
    "offset commit": (
        ApiKey.OFFSET_COMMIT,
        _with(
            _partitions(
                "OffsetCommitRequestTopic",
                "OffsetCommitRequestPartition",
                10,
                partition_index=0,
                committed_offset=0,
                committed_leader_epoch=-1,
                committed_metadata="",
            ),
            group_id="open",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            retention_time=-1,
        ),
    ),
    "offset fetch": (ApiKey.OFFSET_FETCH, _offset_fetch),
    "find groups": (ApiKey.FIND_COORDINATOR, _coordinator(0)),
    "find transactions": (ApiKey.FIND_COORDINATOR, _coordinator(1)),
    "join group": (
        ApiKey.JOIN_GROUP,
        _fixed(
            group_id="closed",
            session_timeout=10_000,
            rebalance_timeout=10_000,
            member_id="unknown",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[row("JoinGroupRequestProtocol", name="range", metadata=b"")],
            reason=None,
        ),
    ),
    "heartbeat": (
        ApiKey.HEARTBEAT,
        _fixed(group_id="open", generation_id=1, member_id="m", group_instance_id=None),
    ),
    "sync group": (
        ApiKey.SYNC_GROUP,
        _fixed(
            group_id="closed",
            generation_id=1,
            member_id="m",
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        ),
    ),
    "leave group": (
        ApiKey.LEAVE_GROUP,
        _fixed(
            group_id="open",
            member_id="m",
            members=[row("MemberIdentity", member_id="m", group_instance_id=None, reason=None)],
        ),
    ),
    "describe groups": (
        ApiKey.DESCRIBE_GROUPS,
        _fixed(groups=("open-none", "closed-none"), include_authorized_operations=True),
    ),
    "list groups": (ApiKey.LIST_GROUPS, _fixed(states_filter=(), types_filter=())),
    "create topics": (ApiKey.CREATE_TOPICS, _create_topics),
    "delete topics": (ApiKey.DELETE_TOPICS, _delete_topics),
    "delete records": (
        ApiKey.DELETE_RECORDS,
        _with(_partitions("DeleteRecordsTopic", "DeleteRecordsPartition", partition_index=0, offset=0), timeout=5000),
    ),
    "init idempotent": (
        ApiKey.INIT_PRODUCER_ID,
        _fixed(transactional_id=None, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1),
    ),
    "init transactional": (
        ApiKey.INIT_PRODUCER_ID,
        _fixed(transactional_id="closed", transaction_timeout=0, producer_id=1, producer_epoch=-1),
    ),
    "leader epochs": (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        _with(
            _partitions(
                "OffsetForLeaderTopic",
                "OffsetForLeaderPartition",
                topic="topic",
                partition=0,
                current_leader_epoch=-1,
                leader_epoch=0,
            ),
            replica_id=-1,
        ),
    ),
    "add partitions": (ApiKey.ADD_PARTITIONS_TO_TXN, _add_partitions),
    "add offsets": (
        ApiKey.ADD_OFFSETS_TO_TXN,
        _fixed(transactional_id="open", producer_id=1, producer_epoch=0, group_id="closed"),
    ),
    "end transaction": (
        ApiKey.END_TXN,
        _fixed(transactional_id="closed", producer_id=1, producer_epoch=0, committed=True),
    ),
    "write markers": (ApiKey.WRITE_TXN_MARKERS, _fixed(markers=[_MARKER])),
    "commit in transaction": (
        ApiKey.TXN_OFFSET_COMMIT,
        _with(
            _partitions(
                "TxnOffsetCommitRequestTopic",
                "TxnOffsetCommitRequestPartition",
                partition_index=5,
                committed_offset=0,
                committed_leader_epoch=-1,
                committed_metadata="",
            ),
            transactional_id="open",
            group_id="open",
            producer_id=1,
            producer_epoch=0,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
        ),
    ),
    "describe acls": (ApiKey.DESCRIBE_ACLS, _fixed(**_ACL_FILTER)),
    "create acls": (ApiKey.CREATE_ACLS, _fixed(creations=[row("AclCreation", **_BAD_ACL)])),
    "delete acls": (ApiKey.DELETE_ACLS, _fixed(filters=[row("DeleteAclsFilter", **_ACL_FILTER)])),
    "describe configs": (
        ApiKey.DESCRIBE_CONFIGS,
        _configs("DescribeConfigsResource", "include_synonyms", configuration_keys=()),
    ),
    "alter configs": (ApiKey.ALTER_CONFIGS, _configs("AlterConfigsResource", "validate_only", configs=[])),
    "change configs": (ApiKey.INCREMENTAL_ALTER_CONFIGS, _configs("AlterConfigsResource", "validate_only", configs=[])),
    "alter log dirs": (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        _fixed(
            dirs=[
                row(
                    "AlterReplicaLogDir",
                    path="/nowhere",
                    topics=[row("AlterReplicaLogDirTopic", name="open", partitions=(0,))],
                )
            ]
        ),
    ),
    "describe log dirs": (ApiKey.DESCRIBE_LOG_DIRS, _fixed(topics=[])),
    "create partitions": (
        ApiKey.CREATE_PARTITIONS,
        _fixed(
            topics=[
                row("CreatePartitionsTopic", name=name, count=2, assignments=None) for name in (*TOPICS, "missing")
            ],
            timeout=5000,
            validate_only=True,
        ),
    ),
    "delete groups": (ApiKey.DELETE_GROUPS, _fixed(groups_names=("open-none", "closed-none"))),
    "elect leaders": (
        ApiKey.ELECT_LEADERS,
        _fixed(
            election_type=0,
            topic_partitions=[row("TopicPartitions", topic="missing", partitions=(0,))],
            timeout=5000,
        ),
    ),
    "reassign": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        _fixed(
            timeout=5000,
            allow_replication_factor_change=True,
            topics=[
                row(
                    "ReassignableTopic",
                    name="missing",
                    partitions=[row("ReassignablePartition", partition_index=0, replicas=(1,))],
                )
            ],
        ),
    ),
    "list reassignments": (ApiKey.LIST_PARTITION_REASSIGNMENTS, _fixed(timeout=5000, topics=None)),
    "offset delete": (
        ApiKey.OFFSET_DELETE,
        _with(
            _partitions("OffsetDeleteRequestTopic", "OffsetDeleteRequestPartition", partition_index=0),
            group_id="open-none",
        ),
    ),
    "describe quotas": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _fixed(components=[], strict=False)),
    "alter quotas": (ApiKey.ALTER_CLIENT_QUOTAS, _fixed(entries=[_QUOTA], validate_only=True)),
    "describe scram": (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _fixed(users=[row("UserName", name="x")])),
    "alter scram": (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        _fixed(deletions=[row("ScramCredentialDeletion", name="gone", mechanism=1)], upsertions=[]),
    ),
    "update features": (
        ApiKey.UPDATE_FEATURES,
        _fixed(timeout=5000, feature_updates=[], validate_only=True),
    ),
    "describe quorum": (
        ApiKey.DESCRIBE_QUORUM,
        _fixed(
            topics=[
                row("TopicData", topic_name="__cluster_metadata", partitions=[row("PartitionData", partition_index=0)])
            ]
        ),
    ),
    "describe cluster": (
        ApiKey.DESCRIBE_CLUSTER,
        _fixed(include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=False),
    ),
    "describe producers": (ApiKey.DESCRIBE_PRODUCERS, _topics("TopicRequest", "name", "partition_indexes")),
    "unregister broker": (ApiKey.UNREGISTER_BROKER, _fixed(broker_id=99)),
    "describe transactions": (
        ApiKey.DESCRIBE_TRANSACTIONS,
        _fixed(transactional_ids=("open-none", "closed-none")),
    ),
    "list transactions": (
        ApiKey.LIST_TRANSACTIONS,
        _fixed(state_filters=(), producer_id_filters=(), duration_filter=-1, transactional_id_pattern=None),
    ),
    "consumer heartbeat": (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        _fixed(
            group_id="open-consumers",
            member_id="m",
            member_epoch=5,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=-1,
            subscribed_topic_names=TOPICS,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=None,
        ),
    ),
    "consumer describe": (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        _fixed(group_ids=("open-none", "closed-none"), include_authorized_operations=True),
    ),
    "list config resources": (ApiKey.LIST_CONFIG_RESOURCES, _fixed(resource_types=())),
    "describe partitions": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        _fixed(
            topics=[row("TopicRequest", name=name) for name in (*TOPICS, "missing")],
            response_partition_limit=10,
            cursor=None,
        ),
    ),
    "describe all partitions": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        _fixed(topics=[], response_partition_limit=10, cursor=None),
    ),
    "add voter": (
        ApiKey.ADD_RAFT_VOTER,
        _fixed(
            cluster_id="wrong",
            timeout=5000,
            voter_id=9,
            voter_directory_id=UUID(int=9),
            listeners=[row("Listener", name="CONTROLLER", host="h", port=1)],
            ack_when_committed=True,
        ),
    ),
    "remove voter": (
        ApiKey.REMOVE_RAFT_VOTER,
        _fixed(cluster_id="wrong", voter_id=9, voter_directory_id=UUID(int=9)),
    ),
}


def request_body(call: str, version: int, ids: TopicIds) -> Any:
    """Build the request of a call."""
    api_key, fields = CALLS[call]
    return build(api_key, version, **fields(version, ids))


def chosen_versions(versions: range) -> list[int]:
    """Return the lowest, a middle and the highest version."""
    return sorted({versions[0], versions[len(versions) // 2], versions[-1]})


# Fields that say what an error is about.
_NAMES: Final = ("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_name")
_OPERATIONS: Final = ("authorized_operations", "topic_authorized_operations", "cluster_authorized_operations")


def outcome(entity: Any, place: str = "") -> list[tuple[str, str]]:
    """Return every error code and every set of authorized operations of a response, with what it is about."""
    found: list[tuple[str, str]] = []
    fields = {field.name: getattr(entity, field.name) for field in dataclasses.fields(entity)}
    about = [str(fields[name]) for name in _NAMES if fields.get(name) is not None]
    place = "/".join((place, type(entity).__name__, *about))
    for name, value in fields.items():
        if isinstance(value, ErrorCode):
            found.append((f"{place}.{name}", value.name))
        elif name in _OPERATIONS:
            found.append((f"{place}.{name}", str(value)))
        elif isinstance(value, tuple):
            for each in value:
                if dataclasses.is_dataclass(each):
                    found += outcome(each, place)
    return sorted(found)
