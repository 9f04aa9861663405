"""Brokers that keep partitions in lists: enough of Kafka to test clients, with faults on order.

Sequences are checked as Kafka does (KIP-98): a repeat of the last batches is answered with its old offset, a gap
with OUT_OF_ORDER_SEQUENCE_NUMBER.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crabka.ids import TopicPartition
from crabka.ports import Network
from crabka.protocol.apis import ApiKey, ms
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import BatchHeader, add_sequence, iter_headers, parse_header, patched_prefix
from crabka.records.record import Record, decode_records
from tests.support.clients.scripted_broker import DisconnectError, Later, ReceivedRequest, ScriptedBroker

Fault = ErrorCode | type[DisconnectError]


@dataclass
class MemoryPartition:
    """A log as a list of batches."""

    leader: int
    leader_epoch: int = 0
    log_start_offset: int = 0
    batches: list[bytes] = field(default_factory=list)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    # Producer id and epoch -> the last batches' (base sequence, last sequence, base offset).
    producers: dict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else self.log_start_offset

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        header = parse_header(batch)
        if header.producer_id >= 0:
            producer = (header.producer_id, header.producer_epoch)
            if header.producer_epoch < self.epochs.get(header.producer_id, 0):
                return ErrorCode.invalid_producer_epoch, -1
            self.epochs[header.producer_id] = header.producer_epoch
            known = self.producers.get(producer, [])
            for base, last, offset in known:
                if (base, last) == (header.base_sequence, header.last_sequence):
                    return ErrorCode.none, offset
            expected = add_sequence(known[-1][1], 1) if known else 0
            if header.base_sequence != expected:
                return ErrorCode.out_of_order_sequence_number, -1
            entry = (header.base_sequence, header.last_sequence, self.end_offset)
            self.producers[producer] = [*known, entry][-5:]
        offset = self.end_offset
        self.append_raw(batch, header)
        return ErrorCode.none, offset

    def append_raw(self, batch: bytes, header: BatchHeader | None = None) -> None:
        header = header or parse_header(batch)
        self.batches.append(patched_prefix(self.end_offset, header.batch_length, self.leader_epoch) + batch[16:])

    def elect(self, node_id: int, end_offset: int | None = None) -> None:
        """Let a replica lead in a new epoch; one that was not in sync has the log up to an offset only."""
        if end_offset is not None:
            self.batches = [batch for batch in self.batches if parse_header(batch).next_offset <= end_offset]
            end = self.end_offset
            self.producers = {p: [row for row in rows if row[2] < end] for p, rows in self.producers.items()}
        self.leader, self.leader_epoch = node_id, self.leader_epoch + 1

    def epoch_end(self, asked: int) -> tuple[int, int]:
        """Return the largest epoch that is not above the one asked for, and where it ends."""
        ends = {0: 0} | {h.partition_leader_epoch: h.next_offset for h in map(parse_header, self.batches)}
        epoch = max((epoch for epoch in ends if epoch <= asked), default=asked)
        return epoch, ends.get(epoch, self.log_start_offset)

    def divergence(self, wanted: Any) -> tuple[int, int] | None:
        """Return the last epoch that is shared with who fetches and where it ends, None if all that it has is."""
        asked = getattr(wanted, "last_fetched_epoch", -1)
        if asked < 0:
            return None
        epoch, end = self.epoch_end(asked)
        return (epoch, end) if epoch < asked or end < wanted.fetch_offset else None

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in decode_records(batch)]


class MemoryCluster:
    """Some brokers of one cluster, with names `broker-<id>` as hosts."""

    def __init__(self, node_ids: tuple[int, ...] = (1,)) -> None:
        self.topics: dict[str, list[MemoryPartition]] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.brokers = {node_id: ScriptedBroker() for node_id in node_ids}
        self.addresses: dict[int, tuple[str, int]] = {}
        self.faults: dict[ApiKey, deque[Fault | None]] = {}
        self.lose_answers = 0
        # Asked before a batch is appended, if there is one: may the batch of the request come in?
        self.gatekeeper: Callable[[ReceivedRequest, TopicPartition, bytes], ErrorCode] | None = None
        self._next_producer_id = 100
        for node_id, broker in self.brokers.items():
            self._serve(node_id, broker)

    async def start(self, network_of: Callable[[str], Network], host: str | None = None) -> str:
        """Let all brokers listen, each on its own host or all on free ports of one; return the bootstrap text."""
        for node_id, broker in self.brokers.items():
            name = host or f"broker-{node_id}"
            self.addresses[node_id] = (name, await broker.listen(network_of(name), name))
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()

    def create_topic(self, name: str, partition_count: int = 1) -> list[MemoryPartition]:
        """Create a topic whose partitions are led by the brokers in turn."""
        nodes = list(self.brokers)
        self.topics[name] = [MemoryPartition(nodes[index % len(nodes)]) for index in range(partition_count)]
        self.topic_ids[name] = uuid.uuid5(uuid.NAMESPACE_DNS, name)
        return self.topics[name]

    def fail_next(self, api_key: ApiKey, *faults: Fault | None) -> None:
        """Let the next requests of an API fail, in turn; None lets one pass."""
        self.faults.setdefault(api_key, deque()).extend(faults)

    def asked(self, api_key: ApiKey) -> list[ReceivedRequest]:
        return [request for broker in self.brokers.values() for request in broker.asked(api_key)]

    def _serve(self, node_id: int, broker: ScriptedBroker) -> None:
        broker.answers |= {
            ApiKey.METADATA: self._metadata,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
            ApiKey.PRODUCE: lambda request: self._produce(node_id, request),
            ApiKey.FETCH: lambda request: self._fetch(node_id, request),
            ApiKey.LIST_OFFSETS: lambda request: self._list_offsets(node_id, request),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda request: self._epoch_ends(node_id, request),
        }

    def _fault(self, api_key: ApiKey) -> ErrorCode | None:
        faults = self.faults.get(api_key)
        fault = faults.popleft() if faults else None
        if fault is DisconnectError:
            raise DisconnectError
        return fault  # type: ignore[return-value] # the only class is DisconnectError

    def _metadata(self, request: ReceivedRequest) -> Any:
        self._fault(ApiKey.METADATA)
        types = request.types
        wanted = request.body.topics
        names = list(self.topics) if wanted is None else [topic.name for topic in wanted]
        brokers = [
            types.new("MetadataResponseBroker", node_id=node_id, host=host, port=port, rack=None)
            for node_id, (host, port) in self.addresses.items()
        ]
        return types.message(
            throttle_time=0,
            brokers=brokers,
            cluster_id="memory",
            controller_id=min(self.brokers),
            topics=[self._topic_metadata(request, name) for name in names],
            error_code=ErrorCode.none,
        )

    def _topic_metadata(self, request: ReceivedRequest, name: str) -> Any:
        types = request.types
        partitions = [
            types.new(
                "MetadataResponsePartition",
                error_code=ErrorCode.none,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[partition.leader],
                isr_nodes=[partition.leader],
            )
            for index, partition in enumerate(self.topics.get(name, []))
        ]
        code = ErrorCode.none if name in self.topics else ErrorCode.unknown_topic_or_partition
        topic_id = self.topic_ids.get(name)
        return types.new(
            "MetadataResponseTopic",
            error_code=code,
            name=name,
            topic_id=topic_id,
            is_internal=False,
            partitions=partitions,
        )

    def _init_producer_id(self, request: ReceivedRequest) -> Any:
        code = self._fault(ApiKey.INIT_PRODUCER_ID) or ErrorCode.none
        self._next_producer_id += 1
        return request.types.message(
            throttle_time=0, error_code=code, producer_id=self._next_producer_id, producer_epoch=0
        )

    def _produce(self, node_id: int, request: ReceivedRequest) -> Any:
        fault = self._fault(ApiKey.PRODUCE)
        types = request.types
        topics = []
        for topic in request.body.topic_data:
            name = self._name_of(topic, "name")
            results = []
            for data in topic.partition_data:
                code, offset = fault or ErrorCode.none, -1
                if fault is None:
                    code, offset = self._append(node_id, request, name, data)
                results.append(
                    types.new(
                        "PartitionProduceResponse",
                        index=data.index,
                        error_code=code,
                        base_offset=offset,
                        log_append_time=-1,
                        log_start_offset=0,
                        record_errors=[],
                    )
                )
            ids = {"name": name, "topic_id": self.topic_ids[name]}
            topics.append(types.new("TopicProduceResponse", **ids, partition_responses=results))
        if self.lose_answers:
            self.lose_answers -= 1
            raise DisconnectError
        return types.message(responses=topics, throttle_time=0)

    def _append(self, node_id: int, request: ReceivedRequest, name: str, data: Any) -> tuple[ErrorCode, int]:
        partition = self.topics[name][data.index]
        if partition.leader != node_id:
            return ErrorCode.not_leader_or_follower, -1
        if self.gatekeeper is not None:
            code = self.gatekeeper(request, TopicPartition(name, data.index), bytes(data.records))
            if code is not ErrorCode.none:
                return code, -1
        answer: tuple[ErrorCode, int] = partition.append(bytes(data.records))
        return answer

    def _fetch(self, node_id: int, request: ReceivedRequest) -> Any:
        fault = self._fault(ApiKey.FETCH)
        types = request.types
        topics = []
        for topic in request.body.topics:
            name = self._name_of(topic, "topic")
            answers = [self._fetch_partition(node_id, request, name, wanted, fault) for wanted in topic.partitions]
            topics.append(
                types.new("FetchableTopicResponse", topic=name, topic_id=self.topic_ids[name], partitions=answers)
            )
        answer = types.message(throttle_time=0, error_code=ErrorCode.none, session_id=0, responses=topics)
        is_idle = not any(
            part.records or part.error_code is not ErrorCode.none or _is_diverging(part)
            for topic in topics
            for part in topic.partitions
        )
        return Later(ms(request.body.max_wait), answer) if is_idle else answer

    def _fetch_partition(
        self, node_id: int, request: ReceivedRequest, name: str, wanted: Any, fault: ErrorCode | None
    ) -> Any:
        partition = self.topics[name][wanted.partition]
        code = fault or ErrorCode.none
        optional: dict[str, Any] = {}
        if partition.leader != node_id:
            code = ErrorCode.not_leader_or_follower
        elif wanted.current_leader_epoch not in {-1, partition.leader_epoch}:
            is_old = wanted.current_leader_epoch < partition.leader_epoch
            code = ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch
        elif (parts := partition.divergence(wanted)) is not None:
            optional["diverging_epoch"] = request.types.new("EpochEndOffset", epoch=parts[0], end_offset=parts[1])
        elif not partition.log_start_offset <= wanted.fetch_offset <= partition.end_offset:
            code = ErrorCode.offset_out_of_range
        data = b"".join(b for b in partition.batches if parse_header(b).next_offset > wanted.fetch_offset)
        complete = [header.size_in_bytes for _, header in iter_headers(data)]
        size = max(wanted.partition_max_bytes, complete[0] if complete else 0)
        new = request.types.new
        return new(
            "PartitionData",
            partition_index=wanted.partition,
            error_code=code,
            high_watermark=partition.end_offset,
            last_stable_offset=partition.end_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=[
                new("AbortedTransaction", producer_id=p, first_offset=o) for p, o in partition.aborted
            ],
            records=data[:size] if code is ErrorCode.none and not optional else b"",
            **optional,
        )

    def _list_offsets(self, node_id: int, request: ReceivedRequest) -> Any:
        fault = self._fault(ApiKey.LIST_OFFSETS)
        new = request.types.new
        topics = []
        for topic in request.body.topics:
            answers = []
            for wanted in topic.partitions:
                partition = self.topics[topic.name][wanted.partition_index]
                code = fault or (ErrorCode.none if partition.leader == node_id else ErrorCode.not_leader_or_follower)
                offset = _find_offset(partition, wanted.timestamp)
                answers.append(
                    new(
                        "ListOffsetsPartitionResponse",
                        partition_index=wanted.partition_index,
                        error_code=code,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=0,
                    )
                )
            topics.append(new("ListOffsetsTopicResponse", name=topic.name, partitions=answers))
        return request.types.message(throttle_time=0, topics=topics)

    def _epoch_ends(self, node_id: int, request: ReceivedRequest) -> Any:
        fault = self._fault(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        new = request.types.new
        topics = []
        for topic in request.body.topics:
            answers = []
            for wanted in topic.partitions:
                partition = self.topics[topic.topic][wanted.partition]
                code = fault or (ErrorCode.none if partition.leader == node_id else ErrorCode.not_leader_or_follower)
                epoch, end = partition.epoch_end(wanted.leader_epoch)
                answers.append(
                    new(
                        "EpochEndOffset",
                        error_code=code,
                        partition=wanted.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(new("OffsetForLeaderTopicResult", topic=topic.topic, partitions=answers))
        return request.types.message(throttle_time=0, topics=topics)

    def _name_of(self, topic: Any, field_name: str) -> str:
        by_name = getattr(topic, field_name, None)
        return by_name or next(name for name, topic_id in self.topic_ids.items() if topic_id == topic.topic_id)


def _is_diverging(data: Any) -> bool:
    found = getattr(data, "diverging_epoch", None)
    return found is not None and found.end_offset >= 0


def _find_offset(partition: MemoryPartition, timestamp: int) -> int:
    if timestamp == -1:
        return partition.end_offset
    if timestamp == -2:
        return partition.log_start_offset
    return next((record.offset for record in partition.records() if record.timestamp >= timestamp), -1)
