"""Transactions for the brokers of `memory_cluster`: one coordinator for everything, in both versions (KIP-98, KIP-890).

Strict where Kafka is: who comes with an old epoch, without its partitions, or to the wrong broker is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.records.header import parse_header
from crabka.records.record import decode_records
from tests.support.clients.scripted_broker import DisconnectError, ReceivedRequest
from tests.support.clusters.memory import MemoryCluster

FIRST_PRODUCE_THAT_ADDS = 12
FIRST_END_THAT_BUMPS = 5
FIRST_OFFSETS_THAT_ADD = 5


@dataclass
class CoordinatedProducer:
    """What the coordinator knows of a transactional id."""

    producer_id: int
    epoch: int = 0
    is_ongoing: bool = False
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    pending: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    last_end: tuple[int, bool] | None = None


class MemoryTransactions:
    """The coordinator, put into all brokers of a cluster; `node_id` is the one that answers."""

    def __init__(self, cluster: MemoryCluster, *, version: int = 2, node_id: int = 1) -> None:
        self.cluster = cluster
        self.version = version
        self.node_id = node_id
        self.producers: dict[str, CoordinatedProducer] = {}
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.metadata: dict[TopicPartition, str] = {}
        self.committed_values: dict[TopicPartition, list[bytes | None]] = {}
        self.ends: list[bool] = []
        self.lose_answers: dict[ApiKey, int] = {}
        # How often a group is answered that the offset of a partition is not settled yet.
        self.unstable_answers: dict[TopicPartition, int] = {}
        cluster.gatekeeper = self._may_append
        for broker_id, broker in cluster.brokers.items():
            for api_key, answer in self._answers().items():
                broker.answers[api_key] = self._guarded(broker_id, api_key, answer)
            broker.answers[ApiKey.FIND_COORDINATOR] = self._find
            broker.answers[ApiKey.OFFSET_FETCH] = self._fetch_offsets
            broker.answers[ApiKey.API_VERSIONS] = self._with_features(broker.answers[ApiKey.API_VERSIONS])

    def time_out(self, transactional_id: str) -> None:
        """Abort the open transaction as the coordinator does when its time is over: the producer is fenced."""
        producer = self.producers[transactional_id]
        producer.epoch += 1
        self._finish(producer, commit=False)

    def _answers(self) -> dict[ApiKey, Callable[[ReceivedRequest], Any]]:
        return {
            ApiKey.INIT_PRODUCER_ID: self._init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKey.END_TXN: self._end,
        }

    def _guarded(self, broker_id: int, api_key: ApiKey, answer: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(request: ReceivedRequest) -> Any:
            fault = self.cluster._fault(api_key)
            if broker_id != self.node_id:
                fault = ErrorCode.not_coordinator
            response = answer(request) if fault is None else self._refused(request, fault)
            if self.lose_answers.get(api_key, 0):
                self.lose_answers[api_key] -= 1
                raise DisconnectError
            return response

        return guarded

    def _with_features(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def answer_with_features(request: ReceivedRequest) -> Any:
            response = answer(request)
            new = request.types.new
            feature = new(
                "FinalizedFeatureKey",
                name="transaction.version",
                max_version_level=self.version,
                min_version_level=self.version,
            )
            return request.types.message(
                error_code=response.error_code,
                api_keys=response.api_keys,
                throttle_time=0,
                finalized_features=[feature],
                finalized_features_epoch=1,
            )

        return answer_with_features

    def _refused(self, request: ReceivedRequest, code: ErrorCode) -> Any:
        match request.api_key:
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                return _added(request, code)
            case ApiKey.TXN_OFFSET_COMMIT:
                return _offsets_answer(request, code)
            case _:
                return request.types.message(throttle_time=0, error_code=code, producer_id=-1, producer_epoch=-1)

    def _find(self, request: ReceivedRequest) -> Any:
        code = self.cluster._fault(ApiKey.FIND_COORDINATOR) or ErrorCode.none
        host, port = self.cluster.addresses[self.node_id]
        found = [
            request.types.new(
                "Coordinator", key=key, node_id=self.node_id, host=host, port=port, error_code=code, error_message=None
            )
            for key in request.body.coordinator_keys
        ]
        return request.types.message(throttle_time=0, coordinators=found)

    def _fetch_offsets(self, request: ReceivedRequest) -> Any:
        new = request.types.new
        (asked,) = request.body.groups
        topics: dict[str, list[Any]] = {}
        committed = self.committed.get(asked.group_id, {})
        places = list(committed)
        if asked.topics is not None:
            places = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
        for place in places:
            is_unstable = request.body.require_stable and self.unstable_answers.get(place, 0) > 0
            if is_unstable:
                self.unstable_answers[place] -= 1
            row = new(
                "OffsetFetchResponsePartitions",
                partition_index=place.partition,
                committed_offset=-1 if is_unstable else committed.get(place, -1),
                committed_leader_epoch=-1,
                metadata=self.metadata.get(place, ""),
                error_code=ErrorCode.unstable_offset_commit if is_unstable else ErrorCode.none,
            )
            topics.setdefault(place.topic, []).append(row)
        rows = [new("OffsetFetchResponseTopics", name=name, partitions=found) for name, found in topics.items()]
        group = new("OffsetFetchResponseGroup", group_id=asked.group_id, topics=rows, error_code=ErrorCode.none)
        return request.types.message(throttle_time=0, groups=[group])

    def _init(self, request: ReceivedRequest) -> Any:
        body = request.body
        producer = self.producers.get(body.transactional_id)
        code = ErrorCode.none
        if producer is None:
            producer = self.producers[body.transactional_id] = CoordinatedProducer(1_000 + len(self.producers))
        elif body.producer_id >= 0 and (body.producer_id, body.producer_epoch) not in (
            (producer.producer_id, producer.epoch),
            (producer.producer_id, producer.epoch - 1),
        ):
            code = ErrorCode.producer_fenced
        else:
            producer.epoch += 1
            self._finish(producer, commit=False)
        return request.types.message(
            throttle_time=0, error_code=code, producer_id=producer.producer_id, producer_epoch=producer.epoch
        )

    def _named(self, body: Any, prefix: str = "") -> tuple[CoordinatedProducer | None, ErrorCode]:
        producer = self.producers.get(getattr(body, f"{prefix}transactional_id"))
        if producer is None or producer.producer_id != getattr(body, f"{prefix}producer_id"):
            return None, ErrorCode.invalid_producer_id_mapping
        if producer.epoch != getattr(body, f"{prefix}producer_epoch"):
            return producer, ErrorCode.producer_fenced
        return producer, ErrorCode.none

    def _add_partitions(self, request: ReceivedRequest) -> Any:
        producer, code = self._named(request.body, "v3_and_below_")
        if producer is not None and code is ErrorCode.none:
            for topic in request.body.v3_and_below_topics:
                for index in topic.partitions:
                    self._join(producer, TopicPartition(topic.name, index))
        return _added(request, code)

    def _add_offsets(self, request: ReceivedRequest) -> Any:
        producer, code = self._named(request.body)
        if producer is not None and code is ErrorCode.none:
            producer.is_ongoing = True
            producer.groups.add(request.body.group_id)
        return request.types.message(throttle_time=0, error_code=code)

    def _commit_offsets(self, request: ReceivedRequest) -> Any:
        body = request.body
        producer, code = self._named(body)
        if producer is not None and code is ErrorCode.none:
            if request.version >= FIRST_OFFSETS_THAT_ADD:
                producer.is_ongoing = True
            elif body.group_id not in producer.groups:
                code = ErrorCode.invalid_txn_state
        if producer is not None and code is ErrorCode.none:
            pending = producer.pending.setdefault(body.group_id, {})
            for topic in body.topics:
                for row in topic.partitions:
                    place = TopicPartition(topic.name, row.partition_index)
                    pending[place] = row.committed_offset
                    self.metadata[place] = row.committed_metadata
        return _offsets_answer(request, code)

    def _end(self, request: ReceivedRequest) -> Any:
        body = request.body
        bumps = request.version >= FIRST_END_THAT_BUMPS
        producer, code = self._named(body)
        repeats = producer is not None and producer.last_end == (body.producer_epoch, body.committed)
        if producer is not None and repeats and not producer.is_ongoing:
            code = ErrorCode.none
        elif producer is not None and code is ErrorCode.none:
            if not producer.is_ongoing and (body.committed or not bumps):
                code = ErrorCode.invalid_txn_state
            else:
                producer.last_end = (producer.epoch, body.committed)
                producer.epoch += bumps
                self._finish(producer, commit=body.committed)
                self.ends.append(body.committed)
        producer_id, epoch = (producer.producer_id, producer.epoch) if producer is not None else (-1, -1)
        return request.types.message(throttle_time=0, error_code=code, producer_id=producer_id, producer_epoch=epoch)

    def _join(self, producer: CoordinatedProducer, place: TopicPartition) -> None:
        producer.is_ongoing = True
        producer.partitions.setdefault(place, len(self.cluster.topics[place.topic][place.partition].batches))

    def _finish(self, producer: CoordinatedProducer, *, commit: bool) -> None:
        for place, first_batch in producer.partitions.items():
            log = self.cluster.topics[place.topic][place.partition]
            written = [
                batch
                for batch in log.batches[first_batch:]
                if parse_header(batch).producer_id == producer.producer_id and not parse_header(batch).is_control
            ]
            if commit:
                values = [record.value for batch in written for record in decode_records(batch)]
                self.committed_values.setdefault(place, []).extend(values)
            elif written:
                log.aborted.append((producer.producer_id, parse_header(written[0]).base_offset))
            log.epochs[producer.producer_id] = producer.epoch
            marker = EndTransactionMarker(committed=commit, coordinator_epoch=0)
            log.append_raw(
                build_end_transaction_batch(
                    marker, producer_id=producer.producer_id, producer_epoch=producer.epoch, timestamp=0
                )
            )
        if commit:
            for group_id, offsets in producer.pending.items():
                self.committed.setdefault(group_id, {}).update(offsets)
        producer.partitions.clear()
        producer.groups.clear()
        producer.pending.clear()
        producer.is_ongoing = False

    def _may_append(self, request: ReceivedRequest, place: TopicPartition, batch: bytes) -> ErrorCode:
        header = parse_header(batch)
        if not header.is_transactional:
            return ErrorCode.none
        producer = self.producers[request.body.transactional_id]
        if (header.producer_id, header.producer_epoch) != (producer.producer_id, producer.epoch):
            return ErrorCode.invalid_producer_epoch
        if request.version >= FIRST_PRODUCE_THAT_ADDS:
            self._join(producer, place)
        return ErrorCode.none if place in producer.partitions else ErrorCode.invalid_txn_state


def _added(request: ReceivedRequest, code: ErrorCode) -> Any:
    new = request.types.new
    topics = [
        new(
            "AddPartitionsToTxnTopicResult",
            name=topic.name,
            results_by_partition=[
                new("AddPartitionsToTxnPartitionResult", partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in request.body.v3_and_below_topics
    ]
    return request.types.message(throttle_time=0, results_by_topic_v3_and_below=topics)


def _offsets_answer(request: ReceivedRequest, code: ErrorCode) -> Any:
    new = request.types.new

    def rows(partitions: Sequence[Any]) -> list[Any]:
        return [
            new("TxnOffsetCommitResponsePartition", partition_index=row.partition_index, error_code=code)
            for row in partitions
        ]

    topics = [
        new("TxnOffsetCommitResponseTopic", name=topic.name, partitions=rows(topic.partitions))
        for topic in request.body.topics
    ]
    return request.types.message(throttle_time=0, topics=topics)
