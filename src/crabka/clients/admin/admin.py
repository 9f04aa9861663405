"""Administration of a cluster: topics, configs, offsets, producers.

`Admin.cluster` has the calls about nodes and the quorum, `Admin.replicas` those about reassignments and elections,
`Admin.log_dirs`, `Admin.groups` and `Admin.transactions` those about log dirs, groups and transactions.

Each call is one Kafka request, sent to any broker (which forwards it to the controller), to the leader of a partition
or to the broker that it is about. A call for several items processes all of them; if some fail, the first error is
raised as OperationError after the others are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crabka.clients.admin.acls import AclAdmin
from crabka.clients.admin.admin_types import (
    ActiveProducer,
    ConfigChange,
    ConfigOwner,
    ConfigValue,
    CreatedTopic,
    NewTopic,
    ResourceType,
)
from crabka.clients.admin.cluster import ClusterAdmin
from crabka.clients.admin.groups import GroupAdmin
from crabka.clients.admin.log_dirs import LogDirAdmin
from crabka.clients.admin.quotas import QuotaAdmin
from crabka.clients.admin.replicas import ReplicaAdmin
from crabka.clients.admin.requests import AdminRequests
from crabka.clients.admin.transactions import TransactionAdmin
from crabka.clients.admin.users import UserAdmin
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.connection import Connection
from crabka.clients.cluster.leader_requests import Answers, ask_leaders, by_topic, error_or
from crabka.clients.cluster.metadata import TopicMetadata
from crabka.clients.fetcher.offsets import OffsetAndTimestamp, list_offsets
from crabka.errors import OperationError
from crabka.ids import ZERO_UUID, TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode


class Admin:
    """Administrative calls over the connections of a cluster, which the caller closes."""

    def __init__(self, cluster: Cluster, timeout_ms: int | None = None) -> None:
        """Without a time limit it is the one of the cluster's requests."""
        requests = AdminRequests(
            cluster, cluster.settings.connection.request_timeout_ms if timeout_ms is None else timeout_ms
        )
        self._ask = requests.ask
        self._cluster = requests.cluster
        self._timeout_ms = requests.timeout_ms
        # Nodes, the quorum, features.
        self.cluster = ClusterAdmin(requests)
        # Reassignments and elections.
        self.replicas = ReplicaAdmin(requests)
        self.log_dirs = LogDirAdmin(requests)
        # Groups and their offsets.
        self.groups = GroupAdmin(requests)
        self.acls = AclAdmin(requests)
        self.users = UserAdmin(requests)
        self.quotas = QuotaAdmin(requests)
        self.transactions = TransactionAdmin(requests)

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Create topics. Raises OperationError (topic_already_exists, invalid_config, ...)."""

        def build(types: MessageTypes) -> Any:
            entries = [_new_topic(types, topic) for topic in topics]
            return types.message(topics=entries, timeout=self._timeout_ms, validate_only=validate_only)

        response = await self._ask(ApiKey.CREATE_TOPICS, build)
        _raise_first(response.topics, "topic")
        for topic in topics:
            self._cluster.invalidate(topic.name)
        return [
            CreatedTopic(
                result.name,
                getattr(result, "topic_id", None) or ZERO_UUID,
                getattr(result, "num_partitions", -1),
                getattr(result, "replication_factor", -1),
            )
            for result in response.topics
        ]

    async def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics by name. Raises OperationError (unknown_topic_or_partition, ...)."""

        def build(types: MessageTypes) -> Any:
            states = [types.new("DeleteTopicState", name=name, topic_id=None) for name in names]
            return types.message(topics=states, topic_names=names, timeout=self._timeout_ms)

        response = await self._ask(ApiKey.DELETE_TOPICS, build)
        for name in names:
            self._cluster.invalidate(name)
        _raise_first(response.responses, "topic")

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Raise the number of partitions of topics to the given totals. Raises OperationError."""

        def build(types: MessageTypes) -> Any:
            entries = [
                types.new("CreatePartitionsTopic", name=name, count=count, assignments=None)
                for name, count in counts.items()
            ]
            return types.message(topics=entries, timeout=self._timeout_ms, validate_only=validate_only)

        response = await self._ask(ApiKey.CREATE_PARTITIONS, build)
        for name in counts:
            self._cluster.invalidate(name)
        _raise_first(response.results, "topic")

    async def list_topics(self) -> dict[str, TopicMetadata]:
        """Return all topics, internal ones included."""
        return dict((await self._cluster.refresh(None)).topics)

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Return the current metadata of topics. Raises OperationError(unknown_topic_or_partition)."""
        view = await self._cluster.refresh(names)
        for name in names:
            if name not in view.topics:
                code = view.topic_errors.get(name, ErrorCode.unknown_topic_or_partition)
                raise OperationError(code, f"topic {name}: {code.name}")
        return {name: view.topics[name] for name in names}

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all up to the high watermark); return the new log starts."""

        async def ask(connection: Connection, partitions: list[TopicPartition]) -> Answers[int]:
            def build(types: MessageTypes) -> Any:
                topics = [
                    types.new("DeleteRecordsTopic", name=topic, partitions=[entry(types, topic, i) for i in indexes])
                    for topic, indexes in by_topic(partitions).items()
                ]
                return types.message(topics=topics, timeout=self._timeout_ms)

            def entry(types: MessageTypes, topic: str, index: int) -> Any:
                offset = before[TopicPartition(topic, index)]
                return types.new("DeleteRecordsPartition", partition_index=index, offset=offset)

            response = await connection.request(ApiKey.DELETE_RECORDS, build, self._timeout_ms)
            return {
                TopicPartition(topic.name, result.partition_index): error_or(
                    result.error_code,
                    f"{topic.name}-{result.partition_index}: {result.error_code.name}",
                    result.low_watermark,
                )
                for topic in response.topics
                for result in topic.partitions
            }

        return await ask_leaders(self._cluster, before, ask, self._timeout_ms)

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by timestamp or special position (`offsets.LATEST`, `EARLIEST`, ...)."""
        return await list_offsets(self._cluster, timestamps, read_committed=read_committed, timeout_ms=self._timeout_ms)

    async def describe_configs(
        self, resource: ConfigOwner, names: Sequence[str] | None = None, *, documentation: bool = False
    ) -> dict[str, ConfigValue]:
        """Return the configs of a resource (`names` None: all) with their synonyms. Raises OperationError."""

        def build(types: MessageTypes) -> Any:
            entry = types.new(
                "DescribeConfigsResource",
                resource_type=resource.type,
                resource_name=resource.name,
                configuration_keys=names,
            )
            return types.message(resources=[entry], include_synonyms=True, include_documentation=documentation)

        response = await self._ask(ApiKey.DESCRIBE_CONFIGS, build, resource)
        _raise_first(response.results, "resource")
        return {config.name: _config_value(config) for result in response.results for config in result.configs}

    async def describe_configs_of(
        self, resources: Sequence[ConfigOwner], names: Sequence[str] | None = None
    ) -> dict[ConfigOwner, dict[str, ConfigValue] | OperationError]:
        """Return the configs of several resources, or the error of each, from any one broker in one request.

        A broker knows its own configs and those of topics and groups.
        """

        def build(types: MessageTypes) -> Any:
            entries = [
                types.new(
                    "DescribeConfigsResource",
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=names,
                )
                for resource in resources
            ]
            return types.message(resources=entries, include_synonyms=False, include_documentation=False)

        response = await self._ask(ApiKey.DESCRIBE_CONFIGS, build)
        return {
            ConfigOwner(ResourceType(result.resource_type), result.resource_name): error_or(
                result.error_code,
                f"{result.resource_name}: {result.error_message or result.error_code.name}",
                {config.name: _config_value(config) for config in result.configs},
            )
            for result in response.results
        }

    async def alter_configs(
        self, resource: ConfigOwner, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Set, delete, append to or subtract from configs of a resource (KIP-339). Raises OperationError."""

        def build(types: MessageTypes) -> Any:
            configs = [
                types.new("AlterableConfig", name=change.name, config_operation=change.operation, value=change.value)
                for change in changes
            ]
            entry = types.new(
                "AlterConfigsResource", resource_type=resource.type, resource_name=resource.name, configs=configs
            )
            return types.message(resources=[entry], validate_only=validate_only)

        response = await self._ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, build, resource)
        _raise_first(response.responses, "resource")

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """Return the producers that the leaders of partitions remember (KIP-664)."""

        async def ask(connection: Connection, group: list[TopicPartition]) -> Answers[list[ActiveProducer]]:
            def build(types: MessageTypes) -> Any:
                topics = [
                    types.new("TopicRequest", name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(group).items()
                ]
                return types.message(topics=topics)

            response = await connection.request(ApiKey.DESCRIBE_PRODUCERS, build, self._timeout_ms)
            return {
                TopicPartition(topic.name, result.partition_index): error_or(
                    result.error_code, result.error_message or result.error_code.name, _producers(result)
                )
                for topic in response.topics
                for result in topic.partitions
            }

        return await ask_leaders(self._cluster, partitions, ask, self._timeout_ms)


def _raise_first(results: Iterable[Any], kind: str) -> None:
    for result in results:
        if result.error_code is not ErrorCode.none:
            name = getattr(result, "name", None) or getattr(result, "resource_name", None)
            message = getattr(result, "error_message", None) or result.error_code.name
            raise OperationError(result.error_code, f"{kind} {name}: {message}")


def _new_topic(types: MessageTypes, topic: NewTopic) -> Any:
    assignments = [
        types.new("CreatableReplicaAssignment", partition_index=index, broker_ids=brokers)
        for index, brokers in topic.assignments.items()
    ]
    configs = [types.new("CreatableTopicConfig", name=name, value=value) for name, value in topic.configs.items()]
    return types.new(
        "CreatableTopic",
        name=topic.name,
        num_partitions=-1 if assignments else topic.partition_count,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=configs,
    )


def _config_value(config: Any) -> ConfigValue:
    synonyms = tuple((synonym.name, synonym.value, synonym.source) for synonym in getattr(config, "synonyms", ()))
    return ConfigValue(
        config.name,
        config.value,
        getattr(config, "config_source", -1),
        config.read_only,
        config.is_sensitive,
        getattr(config, "config_type", 0),
        getattr(config, "documentation", None),
        synonyms,
    )


def _producers(result: Any) -> list[ActiveProducer]:
    return [
        ActiveProducer(
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_timestamp,
            state.coordinator_epoch,
            state.current_txn_start_offset,
        )
        for state in result.active_producers
    ]
