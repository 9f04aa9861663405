"""The requests of a transactional producer and their responses (KIP-98, KIP-447, KIP-890).

Pure: values in, values out. With transactions of version 2 brokers add partitions and groups by themselves, and the end
of a transaction returns the producer's next epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from crabka.clients.cluster.connection import BodyBuilder
from crabka.clients.producer.accumulator import ProducerIdentity
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode

TRANSACTION_VERSION: Final = "transaction.version"
LAST_VERSIONS_OF_V1: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 11,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.END_TXN: 4,
}
"""From the next version on a request means that brokers add to the transaction and bump epochs."""
LAST_ADD_PARTITIONS_OF_CLIENTS: Final = 3
FIRST_INIT_WITH_EPOCH: Final = 3


class OffsetToCommit(NamedTuple):
    """The position of a group in a partition; `offset` is that of the next record."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """The group whose offsets are committed, and which of its members commits; without a member nothing is checked."""

    group_id: str
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionalSender:
    """The sender of requests: the transactional id with its current producer id and epoch."""

    transactional_id: str
    identity: ProducerIdentity

    def _names(self) -> dict[str, Any]:
        producer_id, producer_epoch = self.identity
        return {
            "transactional_id": self.transactional_id,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
        }

    def init(self, timeout_ms: int) -> BodyBuilder:
        """Request an id and an epoch; an identity other than anonymous requests its next epoch (KIP-360)."""
        return lambda types: types.message(**self._names(), transaction_timeout=timeout_ms)

    def add_partitions(self, partitions: Collection[TopicPartition]) -> BodyBuilder:
        """Add partitions at the coordinator."""

        def build(types: MessageTypes) -> Any:
            topics = [
                types.new("AddPartitionsToTxnTopic", name=topic, partitions=sorted(indexes))
                for topic, indexes in _by_topic(partitions).items()
            ]
            names = {f"v3_and_below_{name}": value for name, value in self._names().items()}
            return types.message(**names, v3_and_below_topics=topics)

        return build

    def add_offsets(self, group_id: str) -> BodyBuilder:
        """Add a group at the coordinator."""
        return lambda types: types.message(**self._names(), group_id=group_id)

    def commit_offsets(self, group: GroupMembership, offsets: Mapping[TopicPartition, OffsetToCommit]) -> BodyBuilder:
        """Store offsets with the group's coordinator, pending until the transaction ends."""

        def build(types: MessageTypes) -> Any:
            topics = [
                types.new(
                    "TxnOffsetCommitRequestTopic",
                    name=topic,
                    partitions=[_offset_row(types, index, offsets[TopicPartition(topic, index)]) for index in indexes],
                )
                for topic, indexes in _by_topic(offsets).items()
            ]
            return types.message(
                **self._names(),
                group_id=group.group_id,
                generation_id=group.generation,
                member_id=group.member_id,
                group_instance_id=group.instance_id,
                topics=topics,
            )

        return build

    def end(self, *, commit: bool) -> BodyBuilder:
        """Commit or abort."""
        return lambda types: types.message(**self._names(), committed=commit)


def transactions_version(api_versions: Any) -> int:
    """Return the transaction version that a cluster has finalized, from a broker's ApiVersions response."""
    features = getattr(api_versions, "finalized_features", ()) or ()
    return max((feature.max_version_level for feature in features if feature.name == TRANSACTION_VERSION), default=0)


def worst_of_added(response: Any) -> ErrorCode:
    """Return the first error of an AddPartitionsToTxn response; causes come before skipped partitions."""
    codes = [
        result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    return _worst(codes)


def worst_of_offsets(response: Any) -> ErrorCode:
    """Return the first error of a TxnOffsetCommit response."""
    return _worst(partition.error_code for topic in response.topics for partition in topic.partitions)


def next_identity(response: Any, current: ProducerIdentity) -> ProducerIdentity:
    """Return the identity of a producer after the end of a transaction."""
    producer_id = getattr(response, "producer_id", -1)
    return current if producer_id < 0 else ProducerIdentity(producer_id, response.producer_epoch)


def _worst(codes: Iterable[ErrorCode]) -> ErrorCode:
    failed = [code for code in codes if code is not ErrorCode.none]
    reasons = [code for code in failed if code is not ErrorCode.operation_not_attempted]
    return next(iter([*reasons, *failed]), ErrorCode.none)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return by_topic


def _offset_row(types: MessageTypes, index: int, commit: OffsetToCommit) -> Any:
    return types.new(
        "TxnOffsetCommitRequestPartition",
        partition_index=index,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )
