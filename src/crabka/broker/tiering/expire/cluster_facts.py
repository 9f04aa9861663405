"""Which topics exist, by the broker's own metadata, and how it catches up with the controller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.broker.controller_link.channel import ControllerRequests
    from crabka.protocol.apis import MessageTypes
    from crabka.quorum.raft.quorum import RaftQuorum
    from crabka.remote.segments import TopicIdPartition

_METADATA_LOG: Final = "__cluster_metadata"
_LOOK_AGAIN_MS: Final = 50


class BrokerClusterFacts:
    """Facts for the removal of orphaned data."""

    def __init__(self, quorum: RaftQuorum, controller: ControllerRequests, *, timeout_ms: int) -> None:
        self._quorum = quorum
        self._controller = controller
        self._timeout_ms = timeout_ms

    def is_topic_deleted(self, partition: TopicIdPartition) -> bool:
        """Return whether there is no topic of that id."""
        return partition.topic_id not in self._quorum.image.topics.by_id

    async def catch_up(self) -> None:
        """Return when this broker has applied all that the active controller had committed at the call.

        A change may be in the image while its delivery waits for a disk: only after that the partitions of this broker
        have the new roles and settings. Raises OperationError if no controller responds, or the metadata does not
        arrive in time.
        """
        answer = await self._controller.request(ApiKey.DESCRIBE_QUORUM, _describe)
        partition = answer.topics[0].partitions[0]
        if partition.error_code is not ErrorCode.none:
            raise OperationError(partition.error_code, "the active controller does not return the end of the metadata")
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self._wait_for(partition.high_watermark)
        except TimeoutError as error:
            raise OperationError(ErrorCode.request_timed_out, "the metadata of this broker lags behind") from error

    async def _wait_for(self, end_offset: int) -> None:
        # There is no event for records that change nothing, so this polls.
        while self._quorum.settled_to < end_offset:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_AGAIN_MS / 1000)


def _describe(types: MessageTypes) -> Any:
    partition = types.new("PartitionData", partition_index=0)
    return types.message(topics=[types.new("TopicData", topic_name=_METADATA_LOG, partitions=[partition])])
