"""Which APIs and versions Apache Kafka 4.3 knows.

Owns the numbers only: nothing here loads a schema. Stable versions count; `InitProducerId` v6 exists in Kafka but is
not stable and therefore absent. What a node *serves* is decided in the broker, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple


class ApiKey(IntEnum):
    """Kafka's API keys by Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ApiSpec(NamedTuple):
    """Version range and header rules of one API."""

    key: ApiKey
    name: str  # Kafka's CamelCase name; with "Request" or "Response" it is the name of the schema
    min_version: int
    max_version: int
    first_flexible_version: int  # -1: no version is flexible
    on_broker: bool
    on_controller: bool

    def is_flexible(self, version: int) -> bool:
        """Return whether bodies of that version use compact types and tagged fields (KIP-482)."""
        return 0 <= self.first_flexible_version <= version

    def supports(self, version: int) -> bool:
        """Return whether Kafka 4.3 reads this version."""
        return self.min_version <= version <= self.max_version

    def request_header_version(self, version: int) -> int:
        """Return 2 with tagged fields, else 1."""
        return 2 if self.is_flexible(version) else 1

    def response_header_flexible(self, version: int) -> bool:
        """Return whether the response header ends with tagged fields.

        ApiVersions never has them: a client reads its response before it knows what the node speaks (KIP-511).
        """
        return self.key != ApiKey.API_VERSIONS and self.is_flexible(version)


BROKER = "B"
CONTROLLER = "C"
BOTH = "BC"


def _row(key: ApiKey, name: str, versions: tuple[int, int], first_flexible: int, listeners: str) -> ApiSpec:
    return ApiSpec(key, name, *versions, first_flexible, BROKER in listeners, CONTROLLER in listeners)


_ROWS = (
    _row(ApiKey.PRODUCE, "Produce", (3, 13), 9, BROKER),
    _row(ApiKey.FETCH, "Fetch", (4, 18), 12, BOTH),
    _row(ApiKey.LIST_OFFSETS, "ListOffsets", (1, 11), 6, BROKER),
    _row(ApiKey.METADATA, "Metadata", (0, 13), 9, BROKER),
    _row(ApiKey.OFFSET_COMMIT, "OffsetCommit", (2, 10), 8, BROKER),
    _row(ApiKey.OFFSET_FETCH, "OffsetFetch", (1, 10), 6, BROKER),
    _row(ApiKey.FIND_COORDINATOR, "FindCoordinator", (0, 6), 3, BROKER),
    _row(ApiKey.JOIN_GROUP, "JoinGroup", (0, 9), 6, BROKER),
    _row(ApiKey.HEARTBEAT, "Heartbeat", (0, 4), 4, BROKER),
    _row(ApiKey.LEAVE_GROUP, "LeaveGroup", (0, 5), 4, BROKER),
    _row(ApiKey.SYNC_GROUP, "SyncGroup", (0, 5), 4, BROKER),
    _row(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", (0, 6), 5, BROKER),
    _row(ApiKey.LIST_GROUPS, "ListGroups", (0, 5), 3, BROKER),
    _row(ApiKey.SASL_HANDSHAKE, "SaslHandshake", (0, 1), -1, BOTH),
    _row(ApiKey.API_VERSIONS, "ApiVersions", (0, 4), 3, BOTH),
    _row(ApiKey.CREATE_TOPICS, "CreateTopics", (2, 7), 5, BOTH),
    _row(ApiKey.DELETE_TOPICS, "DeleteTopics", (1, 6), 4, BOTH),
    _row(ApiKey.DELETE_RECORDS, "DeleteRecords", (0, 2), 2, BROKER),
    _row(ApiKey.INIT_PRODUCER_ID, "InitProducerId", (0, 5), 2, BROKER),
    _row(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", (2, 4), 4, BROKER),
    _row(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", (0, 5), 3, BROKER),
    _row(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", (0, 4), 3, BROKER),
    _row(ApiKey.END_TXN, "EndTxn", (0, 5), 3, BROKER),
    _row(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", (1, 2), 1, BROKER),
    _row(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", (0, 5), 3, BROKER),
    _row(ApiKey.DESCRIBE_ACLS, "DescribeAcls", (1, 3), 2, BOTH),
    _row(ApiKey.CREATE_ACLS, "CreateAcls", (1, 3), 2, BOTH),
    _row(ApiKey.DELETE_ACLS, "DeleteAcls", (1, 3), 2, BOTH),
    _row(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", (1, 4), 4, BOTH),
    _row(ApiKey.ALTER_CONFIGS, "AlterConfigs", (0, 2), 2, BOTH),
    _row(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", (1, 2), 2, BROKER),
    _row(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", (1, 5), 2, BROKER),
    _row(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", (0, 2), 2, BOTH),
    _row(ApiKey.CREATE_PARTITIONS, "CreatePartitions", (0, 3), 2, BOTH),
    _row(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", (1, 3), 2, BOTH),
    _row(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", (1, 2), 2, BOTH),
    _row(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", (1, 2), 2, BOTH),
    _row(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", (1, 3), 2, BOTH),
    _row(ApiKey.DELETE_GROUPS, "DeleteGroups", (0, 2), 2, BROKER),
    _row(ApiKey.ELECT_LEADERS, "ElectLeaders", (0, 2), 2, BOTH),
    _row(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", (0, 1), 1, BOTH),
    _row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", (0, 1), 0, BOTH),
    _row(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", (0, 0), 0, BOTH),
    _row(ApiKey.OFFSET_DELETE, "OffsetDelete", (0, 0), -1, BROKER),
    _row(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", (0, 1), 1, BROKER),
    _row(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", (0, 1), 1, BOTH),
    _row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", (0, 0), 0, BOTH),
    _row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", (0, 0), 0, BOTH),
    _row(ApiKey.VOTE, "Vote", (0, 2), 0, CONTROLLER),
    _row(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", (0, 1), 1, CONTROLLER),
    _row(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", (0, 1), 1, CONTROLLER),
    _row(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", (0, 2), 0, BOTH),
    _row(ApiKey.ALTER_PARTITION, "AlterPartition", (2, 3), 2, CONTROLLER),
    _row(ApiKey.UPDATE_FEATURES, "UpdateFeatures", (0, 2), 0, BOTH),
    _row(ApiKey.ENVELOPE, "Envelope", (0, 0), 0, CONTROLLER),
    _row(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", (0, 1), 0, CONTROLLER),
    _row(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", (0, 2), 0, BOTH),
    _row(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", (0, 0), 0, BROKER),
    _row(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", (0, 4), 0, CONTROLLER),
    _row(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", (0, 2), 0, CONTROLLER),
    _row(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", (0, 0), 0, BOTH),
    _row(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", (0, 0), 0, BROKER),
    _row(ApiKey.LIST_TRANSACTIONS, "ListTransactions", (0, 2), 0, BROKER),
    _row(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", (0, 0), 0, CONTROLLER),
    _row(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", (0, 1), 0, BROKER),
    _row(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", (0, 1), 0, BROKER),
    _row(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", (0, 0), 0, CONTROLLER),
    _row(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, "GetTelemetrySubscriptions", (0, 0), 0, BROKER),
    _row(ApiKey.PUSH_TELEMETRY, "PushTelemetry", (0, 0), 0, BROKER),
    _row(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", (0, 0), 0, CONTROLLER),
    _row(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", (0, 1), 0, BROKER),
    _row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", (0, 0), 0, BROKER),
    _row(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", (1, 1), 1, BROKER),
    _row(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", (1, 1), 1, BROKER),
    _row(ApiKey.SHARE_FETCH, "ShareFetch", (1, 2), 1, BROKER),
    _row(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", (1, 2), 1, BROKER),
    _row(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", (0, 1), 0, BOTH),
    _row(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", (0, 0), 0, BOTH),
    _row(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", (0, 0), 0, CONTROLLER),
    _row(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", (0, 0), 0, BROKER),
    _row(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", (0, 0), 0, BROKER),
    _row(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", (0, 1), 0, BROKER),
    _row(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", (0, 0), 0, BROKER),
    _row(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", (0, 1), 0, BROKER),
    _row(ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", (0, 0), 0, BROKER),
    _row(ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", (0, 0), 0, BROKER),
    _row(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", (0, 1), 0, BROKER),
    _row(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", (0, 0), 0, BROKER),
    _row(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", (0, 0), 0, BROKER),
)

SPECS: Mapping[int, ApiSpec] = MappingProxyType({int(row.key): row for row in _ROWS})
