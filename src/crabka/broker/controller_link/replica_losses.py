"""Keeps replicas that lost durable records from being elected, until they have them again or no replica has.

`LogLoss` says what an opening found missing, `loss_rule` what follows from it, and here the controller is asked for it.
The order makes it safe: the broker registers, which fences it; then losses are reported and answered; only then are
partitions hosted and the broker unfenced. Checkpoints keep the loss on disk until it is settled, so a stop at any
moment is harmless. A cluster whose metadata has no directories (before 3.7) cannot be asked; then a warning is all.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.replication.loss_rule import is_settled, must_stand_back
from crabka.ids import DIRECTORY_LOST
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from typing import Any

    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.ids import DirectoryId, TopicId
    from crabka.log.dirs.log_manager import LogManager
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.topics import PartitionImage

    Placements = dict[DirectoryId, dict[TopicId, list[int]]]

logger = logging.getLogger(__name__)

RETRY_PAUSE_MS: Final = 500
# The one refusal that is final: the metadata of the cluster has no directories.
NO_DIRECTORIES: Final = ErrorCode.unsupported_version


class _Wish(NamedTuple):
    """Where a replica is to be reported."""

    log: PartitionLog
    topic_id: TopicId
    partition: PartitionImage
    directory: DirectoryId


class ReplicaLosses:
    """The replicas of a broker that may not lead. Methods run on the loop."""

    def __init__(
        self,
        logs: LogManager,
        identity: BrokerIdentity,
        *,
        image: Callable[[], MetadataImage],
        ask: Callable[[Placements], Awaitable[ErrorCode | None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`ask` reports in which directories replicas are; returns the answer, None if there was none."""
        self._logs = logs
        self._identity = identity
        self._image = image
        self._ask = ask
        self._spawn = spawn
        # The logs that had a loss, and where they were last reported.
        self._open: dict[PartitionLog, DirectoryId | None] = {}
        # Those of them that lost what was synced, or stood back when the broker started: a restart changes nothing.
        self._durable: set[PartitionLog] = set()
        self._is_asking = False

    @property
    def standing_back_count(self) -> int:
        """How many replicas may not lead at the moment."""
        return sum(log.durability.loss is not None for log in self._open)

    async def report(self) -> None:
        """Report all losses that the opening of the logs found, until the controller has answered.

        Called once the broker is registered and before it may be unfenced. A replica that has no loss and is lost to
        the metadata delays nothing: `DirectoryReports` says where it is once the broker serves.
        """
        self._open = dict.fromkeys(self._suspects())
        self._durable = {log for log in self._open if self._is_durable(log)}
        for log in self._open:
            logger.error("%s lost records: %s", log.topic_partition, log.durability.loss)
        await self._ask_until_answered()

    def on_metadata(self, _delta: MetadataChanges, _image: MetadataImage) -> None:
        """See whether a change of the metadata ends what keeps a replica back."""
        if self._open and not self._is_asking and self._wishes():
            self._spawn(self._ask_until_answered())

    def _is_durable(self, log: PartitionLog) -> bool:
        found = self._place_of(log)
        was_reported = found is not None and self._known_directory(found[1]) == DIRECTORY_LOST
        return log.durability.loss is not None and (log.durability.loss.is_durable or was_reported)

    def _suspects(self) -> Iterable[PartitionLog]:
        for log in self._logs:
            if log.durability.loss is not None and self._place_of(log) is not None:
                yield log

    async def _ask_until_answered(self) -> None:
        self._is_asking = True
        try:
            while wishes := self._wishes():
                code = await self._report(wishes)
                if code not in (ErrorCode.none, NO_DIRECTORIES):
                    # Nothing says that the controller knows of the losses.
                    await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                    continue
                if code is NO_DIRECTORIES:
                    logger.error("the controller does not let replicas stand back that lost records: %s", code.name)
                for wish in wishes:
                    self._answered(wish)
        finally:
            self._is_asking = False

    async def _report(self, wishes: list[_Wish]) -> ErrorCode | None:
        placements: Placements = {}
        for log, topic_id, partition, directory in wishes:
            if directory != (self._open[log] or self._known_directory(partition)):
                placements.setdefault(directory, {}).setdefault(topic_id, []).append(log.partition)
        return await self._ask(placements) if placements else ErrorCode.none

    def _answered(self, wish: _Wish) -> None:
        log = wish.log
        self._open[log] = wish.directory
        if wish.directory == DIRECTORY_LOST:
            logger.warning("%s does not lead before it has its records again", log.topic_partition)
            return
        if log.durability.loss is None:
            del self._open[log]
            return
        if not is_settled(wish.partition, self._identity.node_id):
            logger.warning("%s follows its leader until it has its records again", log.topic_partition)
            return
        del self._open[log]
        if wish.partition.leader in (self._identity.node_id, -1):
            logger.error(
                "%s: no other replica is known to have them, it may lead: %s", log.topic_partition, log.durability.loss
            )
        else:
            logger.warning(
                "%s has caught up with its leader, and may lead again: %s", log.topic_partition, log.durability.loss
            )
        log.durability.settle_loss()

    def _wishes(self) -> list[_Wish]:
        """Return the replicas that are not reported as they should be, or whose loss is to be settled."""
        wishes = []
        for log, reported in list(self._open.items()):
            found = self._place_of(log)
            own = self._logs.directory_id(log.log_dir)
            if found is None or own is None:
                # It was deleted, or its dir has failed.
                del self._open[log]
                continue
            topic_id, partition = found
            stands_back = log.durability.loss is not None and must_stand_back(
                partition,
                self._identity.node_id,
                self._image().cluster.brokers,
                is_durable=log in self._durable,
            )
            directory = DIRECTORY_LOST if stands_back else own
            is_over = not stands_back and (log.durability.loss is None or is_settled(partition, self._identity.node_id))
            if is_over or reported != directory:
                wishes.append(_Wish(log, topic_id, partition, directory))
        return wishes

    def _place_of(self, log: PartitionLog) -> tuple[TopicId, PartitionImage] | None:
        topic = self._image().topics.by_name.get(log.topic)
        partition = None if topic is None else topic.partitions.get(log.partition)
        if topic is None or partition is None or self._logs.get(log.topic_partition) is not log:
            return None
        is_here = self._identity.node_id in partition.replicas and log.topic_id in (None, topic.topic_id)
        return (topic.topic_id, partition) if is_here else None

    def _known_directory(self, partition: PartitionImage) -> DirectoryId:
        return partition.directory_of(self._identity.node_id)
