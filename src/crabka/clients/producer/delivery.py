"""Produce requests, and the result of their answers for a batch: delivered, to be retried, or lost.

Pure: values in, values out.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crabka.clients.cluster.cluster import means_stale_metadata
from crabka.clients.cluster.connection import BodyBuilder
from crabka.clients.errors import ClientClosedError, ClientNetworkError
from crabka.clients.producer.accumulator import ProducerBatch
from crabka.errors import CrabkaError, OperationError
from crabka.ids import ZERO_UUID, TopicPartition
from crabka.protocol.apis import MessageTypes, ms
from crabka.protocol.error_codes import ErrorCode

LAST_PRODUCE_VERSION_WITH_NAMES = 12


class DeliveryResult(enum.Enum):
    """What to do with a batch after an answer."""

    DELIVERED = enum.auto()
    RETRY = enum.auto()
    RETRY_WITH_NEW_IDENTITY = enum.auto()
    LOST = enum.auto()


class PartitionOutcome(NamedTuple):
    """A broker's answer for one partition, or why there is none."""

    error_code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    error: CrabkaError | None = None

    @classmethod
    def of_success(cls, base_offset: int, log_append_time_ms: int = -1) -> PartitionOutcome:
        """Return the outcome of a batch that is in the log."""
        return cls(ErrorCode.none, base_offset, log_append_time_ms)

    @classmethod
    def of_failure(cls, error: CrabkaError) -> PartitionOutcome:
        """Return the outcome of a request that got no answer: lost connections are retriable."""
        if isinstance(error, OperationError):
            return cls(error.error_code, error=error)
        is_network = isinstance(error, ClientNetworkError)
        return cls(ErrorCode.network_exception if is_network else ErrorCode.unknown_server_error, error=error)

    @property
    def is_stale_metadata(self) -> bool:
        """True if the broker does not lead the partition, or is gone."""
        return means_stale_metadata(self.error_code)


class ProduceRequest(NamedTuple):
    """The builder of a Produce request, and the newest version that can carry it."""

    body: BodyBuilder
    max_version: int | None


def delivery_result(outcome: PartitionOutcome, *, follows_unsettled: bool) -> DeliveryResult:
    """Return what to do with a batch; `follows_unsettled`: an earlier batch may not be in the log yet."""
    code = outcome.error_code
    if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
        return DeliveryResult.DELIVERED
    if code is ErrorCode.out_of_order_sequence_number:
        # The batch before it failed: the sequence is right once that one is in the log.
        return DeliveryResult.RETRY if follows_unsettled else DeliveryResult.LOST
    if code is ErrorCode.unknown_producer_id:
        # The partition no longer knows the producer, for example after retention: no batch of it is left to duplicate.
        return DeliveryResult.RETRY_WITH_NEW_IDENTITY
    if isinstance(outcome.error, ClientClosedError):
        return DeliveryResult.LOST
    return DeliveryResult.RETRY if code.retriable else DeliveryResult.LOST


def produce_request(
    batches: Sequence[ProducerBatch],
    acks: int,
    timeout_ms: int,
    topic_ids: Mapping[str, uuid.UUID],
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return the request for batches of different partitions; topics go by id from version 13 on (KIP-516)."""
    by_topic: dict[str, list[ProducerBatch]] = {}
    for batch in batches:
        by_topic.setdefault(batch.partition.topic, []).append(batch)

    def build(types: MessageTypes) -> Any:
        topics = [
            types.new(
                "TopicProduceData",
                name=topic,
                topic_id=topic_ids.get(topic),
                partition_data=[
                    types.new("PartitionProduceData", index=batch.partition.partition, records=batch.encoded)
                    for batch in topic_batches
                ],
            )
            for topic, topic_batches in by_topic.items()
        ]
        return types.message(transactional_id=transactional_id, acks=acks, timeout=timeout_ms, topic_data=topics)

    all_ids_known = all(topic_ids.get(topic, ZERO_UUID) != ZERO_UUID for topic in by_topic)
    return ProduceRequest(build, None if all_ids_known else LAST_PRODUCE_VERSION_WITH_NAMES)


def read_outcomes(response: Any, names: Mapping[uuid.UUID, str]) -> dict[TopicPartition, PartitionOutcome]:
    """Return the answer for each partition of a Produce response."""
    outcomes: dict[TopicPartition, PartitionOutcome] = {}
    for topic in response.responses:
        name = getattr(topic, "name", None) or names.get(getattr(topic, "topic_id", None) or ZERO_UUID)
        if name is None:
            continue
        for answer in topic.partition_responses:
            code = answer.error_code
            error = None
            if code is not ErrorCode.none:
                error = OperationError(
                    code, getattr(answer, "error_message", None) or f"{name}-{answer.index}: {code.name}"
                )
            append_time_ms = ms(getattr(answer, "log_append_time", None))
            outcomes[TopicPartition(name, answer.index)] = PartitionOutcome(
                code, answer.base_offset, append_time_ms, error
            )
    return outcomes
