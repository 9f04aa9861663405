"""TxnOffsetCommit (28): stores how far a group has read, as a part of a transaction (KIP-98, KIP-447).

The offsets are pending until a marker ends the transaction. Up to version 4 the client added the group to its
transaction before, which the coordinator confirms; from version 5 on it is added here (KIP-890). From version 3 on the
member and its generation are checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.coordinators.appender import WITHOUT_LIMIT_MS, coordinator_error, is_stored
from crabka.broker.coordinators.replies import PendingReply
from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.consumer.group import ConsumerGroup
from crabka.broker.groups.messages import NO_GENERATION, UNKNOWN_MEMBER, CommitAttempt
from crabka.broker.groups.offsets import commit_row
from crabka.broker.groups.records import offset_pair
from crabka.broker.transactions.verification import (
    OFFSET_COMMIT_VERSIONS,
    TransactionalProducer,
    VerificationMode,
    ask_coordinator,
    begin_verification,
)
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.log.producers.verification import ANY_TERMS, AppendTerms
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.records.builder import build_batch
from crabka.records.header import NO_SEQUENCE
from crabka.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.broker.context import BrokerContext
    from crabka.broker.groups.offsets import CommitRow, CommittedOffset, Place
    from crabka.broker.groups.shard import HostedShard
    from crabka.serving.request import Request

FIRST_VERSION_OF_CLIENTS_THAT_KNOW_LOADING = 2
# Kafka numbers the records of its coordinators, but does not check the numbers.
_BASE_SEQUENCE = 0


async def handle(context: BrokerContext, request: Request) -> Any:
    """Check every partition, then store the good ones in one batch of the transaction."""
    topics = [(topic.name, _rows(context, topic)) for topic in request.body.topics]
    commits = [row.commit for _, rows in topics for row in rows if row.commit is not None]
    error_code = ErrorCode.none
    if commits:
        try:
            error_code = await _commit(context, request, commits)
        except OperationError as error:
            error_code = _for_client(error.error_code, request.version)
    types = response_types(request.api_key, request.version)
    responses = [
        types.new(
            "TxnOffsetCommitResponseTopic",
            name=name,
            partitions=[
                types.new(
                    "TxnOffsetCommitResponsePartition",
                    partition_index=row.partition,
                    error_code=row.error_code if row.commit is None else error_code,
                )
                for row in rows
            ],
        )
        for name, rows in topics
    ]
    return types.message(throttle_time=0, topics=responses)


def _rows(context: BrokerContext, topic: Any) -> list[CommitRow]:
    found = context.image.topics.by_name.get(topic.name)
    now_ms, max_length = context.runtime.clock.now_ms(), context.config.offset_metadata_max_bytes
    return [commit_row(found, each, max_metadata_length=max_length, now_ms=now_ms) for each in topic.partitions]


async def _commit(
    context: BrokerContext, request: Request, commits: Sequence[tuple[Place, CommittedOffset]]
) -> ErrorCode:
    body = request.body
    if not body.group_id:
        return ErrorCode.invalid_group_id
    hosted = context.groups.shard_of(body.group_id)
    producer = TransactionalProducer(body.transactional_id, body.producer_id, body.producer_epoch)
    terms = await _verify(
        context, hosted, producer, VerificationMode.of_version(request.version, OFFSET_COMMIT_VERSIONS)
    )
    # The shard may have gone, or the group may have changed, while the coordinator was asked.
    hosted = _accepting_shard(context, request, [place for place, _ in commits])
    reply = PendingReply()

    def stored(error_code: ErrorCode) -> None:
        hosted.shard.end_commit(body.group_id)
        if is_stored(error_code):
            error_code = ErrorCode.none
            hosted.shard.simple_group(body.group_id, context.groups.now_ms())
            for place, committed in commits:
                hosted.shard.offsets.put_pending(producer.producer_id, body.group_id, place, committed)
        reply.resolve(error_code)

    batch = _batch(context, body.group_id, producer, commits)
    hosted.shard.begin_commit(body.group_id)
    context.appender.append(hosted.partition, batch, terms, stored, timeout_ms=WITHOUT_LIMIT_MS)
    return _for_client(await context.groups.wait_stored(reply), request.version)


async def _verify(
    context: BrokerContext, hosted: HostedShard, producer: TransactionalProducer, mode: VerificationMode
) -> AppendTerms:
    """Return the terms of the append. Raises OperationError if the transaction is not open."""
    if not mode.asks_coordinator(verifies=context.config.transaction_partition_verification_enable):
        return ANY_TERMS
    partition = hosted.partition
    guard = begin_verification(context, partition, producer, NO_SEQUENCE, mode)
    if guard is not None:
        place = TopicPartition(partition.topic, partition.index)
        failures = await ask_coordinator(context.partition_adder, producer, [place], mode)
        if place in failures:
            raise OperationError(failures[place])
    return AppendTerms(guard)


def _accepting_shard(context: BrokerContext, request: Request, places: Sequence[Place]) -> HostedShard:
    """Return the shard of the group. Raises OperationError if the sender may not commit for the group."""
    body = request.body
    generation = getattr(body, "generation_id", NO_GENERATION)
    hosted, group = context.groups.group(body.group_id)
    if group is None:
        if generation >= 0:
            raise OperationError(ErrorCode.illegal_generation)
    elif isinstance(group, ConsumerGroup):
        group.offset_checks.commit(getattr(body, "member_id", UNKNOWN_MEMBER), generation, None).require(places)
    elif not isinstance(group, ClassicGroup):
        raise OperationError(ErrorCode.group_id_not_found)
    else:
        error_code = context.groups.ask(
            hosted,
            group,
            lambda reply: CommitAttempt(
                reply=reply,
                member_id=getattr(body, "member_id", UNKNOWN_MEMBER),
                instance_id=getattr(body, "group_instance_id", None),
                generation=generation,
                is_transactional=True,
            ),
        )
        if error_code is not ErrorCode.none:
            raise OperationError(error_code)
    return hosted


def _batch(
    context: BrokerContext,
    group_id: str,
    producer: TransactionalProducer,
    commits: Sequence[tuple[Place, CommittedOffset]],
) -> bytes:
    now_ms = context.runtime.clock.now_ms()
    pairs = [offset_pair(group_id, place, committed) for place, committed in commits]
    return build_batch(
        [Record(index, now_ms, key, value) for index, (key, value) in enumerate(pairs)],
        codec=context.config.offsets_topic_compression_codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=_BASE_SEQUENCE,
        transactional=True,
    )


def _for_client(error_code: ErrorCode, version: int) -> ErrorCode:
    if error_code is ErrorCode.network_exception:
        # Clients retry on it without looking for the coordinator.
        error_code = ErrorCode.coordinator_load_in_progress
    error_code = coordinator_error(error_code)
    if error_code is ErrorCode.coordinator_load_in_progress and version < FIRST_VERSION_OF_CLIENTS_THAT_KNOW_LOADING:
        return ErrorCode.coordinator_not_available
    return error_code
