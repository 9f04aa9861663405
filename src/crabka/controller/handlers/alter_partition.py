"""AlterPartition (56): a leader changes the ISR (KIP-497).

Version 3 has the broker epoch of every member, so that no older incarnation joins (KIP-903).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.alter_partition import IsrMember, IsrProposal, alter_partitions
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.controller.decisions.alter_partition import AlteredPartition
    from crabka.ids import TopicId
    from crabka.protocol.apis import MessageTypes
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Decide on each partition; the new state is in force when the answer is sent."""
    body = request.body
    proposals = [
        _proposal(topic.topic_id or ZERO_UUID, partition) for topic in body.topics for partition in topic.partitions
    ]
    results = await context.metadata_writer.submit(
        lambda image: alter_partitions(
            image, context.rules, proposals, broker_id=body.broker_id, broker_epoch=body.broker_epoch
        )
    )
    types = response_types(request.api_key, request.version)
    rows: dict[TopicId, list[Any]] = {topic.topic_id or ZERO_UUID: [] for topic in body.topics}
    for result in results:
        rows[result.topic_id].append(_row(types, result))
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        topics=[
            types.new("TopicData", topic_id=topic_id, partitions=partitions) for topic_id, partitions in rows.items()
        ],
    )


def _proposal(topic_id: TopicId, partition: Any) -> IsrProposal:
    if hasattr(partition, "new_isr_with_epochs"):
        isr = [IsrMember(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs]
    else:
        isr = [IsrMember(broker_id) for broker_id in partition.new_isr]
    return IsrProposal(
        topic_id=topic_id,
        partition_id=partition.partition_index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=isr,
        leader_recovery_state=partition.leader_recovery_state,
    )


def _row(types: MessageTypes, result: AlteredPartition) -> Any:
    state = result.partition
    return types.new(
        "PartitionData",
        partition_index=result.partition_id,
        error_code=result.error_code,
        leader_id=0 if state is None else state.leader,
        leader_epoch=0 if state is None else state.leader_epoch,
        isr=() if state is None else state.isr,
        leader_recovery_state=0 if state is None else state.leader_recovery_state,
        partition_epoch=0 if state is None else state.partition_epoch,
    )
