"""The tier as followers use it: to learn the history of records that they will never hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.partition.partition import Partition
    from crabka.broker.tiering.bootstrap.follower_bootstrap import FollowerStart
    from crabka.broker.tiering.read.reader import RemoteReads
    from crabka.log.dirs.log_manager import LogManager


class FollowerTier:
    """Lets logs of followers begin again after what the tier holds. Only for the loop."""

    def __init__(self, reads: Callable[[], RemoteReads | None], logs: LogManager) -> None:
        """`reads` returns None on a node without a tier."""
        self._reads = reads
        self._logs = logs

    async def start_after(self, partition: Partition, leader_epoch: int, offset: int) -> FollowerStart:
        """Return where a log can begin after the segment that holds an offset of an epoch, and with which history.

        Raises RemoteStorageError, RemoteWaitOverError, OperationError if this node has no tier.
        """
        reads = self._reads()
        if reads is None:
            raise OperationError(
                ErrorCode.offset_moved_to_tiered_storage, "its leader has a remote tier and this node has none"
            )
        return await reads.follower_start(partition, leader_epoch, offset)

    async def rebuild(self, partition: Partition, start: FollowerStart, log_start_offset: int) -> None:
        """Drop the log and begin again. The caller holds its turn. Raises StorageError, OperationError."""
        await self._logs.rebuild_from_remote(
            partition.log,
            start.start_offset,
            log_start_offset=log_start_offset,
            epochs=start.epochs,
            producer_snapshot=start.producer_snapshot,
        )
