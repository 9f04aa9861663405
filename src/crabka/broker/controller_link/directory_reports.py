"""Reports to the controller in which log dir each replica of this broker lies (AssignReplicasToDirs, KIP-858).

A broker with one log dir need not: the controller knows it from the registration. A report is not repeated unless the
dir changes, and retried until the controller responds. A dir that fails is reported by the heartbeats; replicas that
lay there are reported first, because the controller may not know yet where they were and must not take them for new
ones.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import CrabkaError
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crabka.broker.controller_link.channel import ControllerRequests
    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.broker.partition.partition import Partition
    from crabka.ids import DirectoryId, TopicId
    from crabka.log.dirs.log_manager import LogManager
    from crabka.metadata.image import MetadataImage
    from crabka.protocol.apis import MessageTypes

    Placement = tuple[TopicId, int]

logger = logging.getLogger(__name__)

RETRY_PAUSE_MS: Final = 500
# No response, or the controller does not know this registration yet.
_UNANSWERED: Final = (None, ErrorCode.stale_broker_epoch)


class DirectoryReports:
    """Compares where replicas lie with what the metadata says, and reports the difference."""

    def __init__(
        self,
        controller: ControllerRequests,
        identity: BrokerIdentity,
        logs: LogManager,
        *,
        place_of: Callable[[Partition], str] = lambda partition: partition.log.log_dir,
    ) -> None:
        """`place_of` returns in which log dir a replica is, or is about to be while it moves."""
        self._controller = controller
        self._identity = identity
        self._logs = logs
        # What the controller has not acknowledged.
        self._unreported: dict[Placement, Partition] = {}
        self._telling = asyncio.Lock()
        # Replicas that are said to be lost on purpose: where they lie is reported when that is over.
        self._held: set[Placement] = set()
        self._place_of = place_of

    def hold(self, placement: Placement) -> None:
        """Do not report where a replica lies until `release`."""
        self._held.add(placement)

    def release(self, placement: Placement) -> None:
        """Report again where a replica lies when that is new."""
        self._held.discard(placement)

    async def report(self, image: MetadataImage, partitions: Iterable[Partition]) -> bool:
        """Report the partitions whose log dir the metadata does not know, or knows wrongly.

        Return whether the controller has answered for all of them; if not, `keep_reporting` goes on.
        """
        for partition in partitions:
            directory = self._directory_of(partition)
            if directory is not None and self._is_news(image, partition, directory):
                self._unreported[partition.topic_id, partition.index] = partition
        async with self._telling:
            return await self._send_once()

    async def keep_reporting(self) -> None:
        """Report what the controller did not acknowledge yet, until it does."""
        async with self._telling:
            while True:
                if await self._send_once():
                    return
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    async def _send_once(self) -> bool:
        # It may have moved since this report was due first.
        sent = {placement: (each, self._directory_of(each)) for placement, each in self._unreported.items()}
        by_directory: dict[DirectoryId, dict[TopicId, list[int]]] = {}
        for (topic_id, index), (_, directory) in sent.items():
            if directory is not None:
                by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        if by_directory and await self.ask(by_directory) in _UNANSWERED:
            return False
        for placement, (partition, directory) in sent.items():
            # One that moved once more while the controller was asked is still to be reported.
            if self._unreported.get(placement) is partition and self._directory_of(partition) == directory:
                del self._unreported[placement]
        return not self._unreported

    def _directory_of(self, partition: Partition) -> DirectoryId | None:
        # A replica that lost records is reported as lost (`replica_losses`).
        return None if partition.log.durability.loss is not None else self._logs.directory_id(self._place_of(partition))

    def _is_news(self, image: MetadataImage, partition: Partition, directory: DirectoryId) -> bool:
        if (partition.topic_id, partition.index) in self._held:
            return False
        topic = image.topics.by_id.get(partition.topic_id)
        known = None if topic is None else topic.partitions.get(partition.index)
        node_id = self._identity.node_id
        return known is not None and node_id in known.replicas and known.directory_of(node_id) != directory

    async def send(self, by_directory: dict[DirectoryId, dict[TopicId, list[int]]]) -> bool:
        """Report in which directories replicas are; return whether the controller accepted it."""
        return await self.ask(by_directory) is ErrorCode.none

    async def ask(self, by_directory: dict[DirectoryId, dict[TopicId, list[int]]]) -> ErrorCode | None:
        """Report in which directories replicas are; return what the controller answered, None if it did not."""

        def build(types: MessageTypes) -> Any:
            return types.message(
                broker_id=self._identity.node_id,
                broker_epoch=self._identity.broker_epoch,
                directories=[
                    types.new(
                        "DirectoryData",
                        id_=directory,
                        topics=[
                            types.new(
                                "TopicData",
                                topic_id=topic_id,
                                partitions=[types.new("PartitionData", partition_index=index) for index in indexes],
                            )
                            for topic_id, indexes in topics.items()
                        ],
                    )
                    for directory, topics in by_directory.items()
                ],
            )

        try:
            answer = await self._controller.request(ApiKey.ASSIGN_REPLICAS_TO_DIRS, build)
        except CrabkaError as error:
            logger.warning("cannot report log dirs to the controller yet: %s", error)
            return None
        if answer.error_code is not ErrorCode.none:
            logger.warning("the controller does not take the log dirs of replicas: %s", answer.error_code.name)
        return ErrorCode(answer.error_code)
