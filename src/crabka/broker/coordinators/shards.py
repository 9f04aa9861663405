"""The shards that this node runs: loaded when it leads their partition, dropped when it stops leading.

A shard contains the whole log of the new leader, and serves no request before all of it is replicated: until then it
may still be lost.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, TypeVar

from crabka.broker.coordinators.appender import WITHOUT_LIMIT_MS
from crabka.broker.coordinators.loader import replay_log
from crabka.broker.partition.partition import RequiredOffset
from crabka.broker.partition.purgatory import Delayed, ReachedOffsets, replicated
from crabka.errors import InvariantError, OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from typing import Any

    from crabka.broker.partition.partition import Partition
    from crabka.broker.partition.partitions import PartitionRegistry
    from crabka.ports import Runtime, Spawn
    from crabka.records.header import BatchHeader

logger = logging.getLogger(__name__)

S = TypeVar("S")


def java_hash(text: str) -> int:
    """Return Java's hash code of a string, which is made of its UTF-16 code units."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of a group or a transactional id; as in Kafka, the lowest hash counts as 0."""
    hashed = java_hash(key)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count


class HostedShard(Generic[S]):
    """A shard with its partition and the leader epoch in which it was created."""

    __slots__ = ("has_failed", "is_active", "leader_epoch", "loading", "partition", "shard")

    def __init__(self, partition: Partition, shard: S) -> None:
        self.partition = partition
        self.shard = shard
        self.loading: asyncio.Future[Any] | None = None
        self.leader_epoch = partition.leader_epoch
        self.is_active = False
        # It could not be loaded. The next leader epoch retries.
        self.has_failed = False

    def cancel(self) -> None:
        """Stop loading; the shard is no longer valid."""
        self.is_active = False
        if self.loading is not None:
            self.loading.cancel()


class ShardRegistry(Generic[S]):
    """All shards of one topic on a node, by partition."""

    def __init__(
        self,
        topic: str,
        runtime: Runtime,
        partitions: PartitionRegistry,
        spawn: Spawn,
        *,
        # Applies one batch at a time and returns its number of records.
        replay: Callable[[S, memoryview, BatchHeader, int], int],
        load_buffer_bytes: Callable[[], int],
        # Whether a leader that is elected again reloads its shard. If not, it continues with the state of its own log.
        reloads_in_new_epoch: bool = False,
    ) -> None:
        self._topic = topic
        self._runtime = runtime
        self._partitions = partitions
        self._spawn = spawn
        self._replay = replay
        self._load_buffer_bytes = load_buffer_bytes
        self._reloads_in_new_epoch = reloads_in_new_epoch
        self._shards: dict[int, HostedShard[S]] = {}

    def __iter__(self) -> Iterator[HostedShard[S]]:
        """Iterate over the shards that this node leads, also those that are still being loaded."""
        return iter([hosted for hosted in self._shards.values() if hosted.partition.is_leader])

    def get(self, index: int) -> HostedShard[S]:
        """Return the shard of a partition.

        Raises OperationError: NOT_COORDINATOR if this node does not lead it, COORDINATOR_LOAD_IN_PROGRESS.
        """
        hosted = self._shards.get(index)
        if hosted is None or not hosted.partition.is_leader:
            raise OperationError(ErrorCode.not_coordinator)
        if not hosted.is_active:
            raise OperationError(ErrorCode.coordinator_load_in_progress)
        return hosted

    def follow_leadership(
        self, make: Callable[[], S], now_ms: Callable[[], int], on_loaded: Callable[[HostedShard[S]], None]
    ) -> list[HostedShard[S]]:
        """Start to load shards of newly led partitions; return the shards of lost ones."""
        led = {index: each for index, each in self._partitions.of_topic(self._topic).items() if each.is_leader}
        lost = [hosted for hosted in self._shards.values() if not self._goes_on(hosted, led)]
        for hosted in lost:
            del self._shards[hosted.partition.index]
            hosted.cancel()
        for index, partition in led.items():
            if index not in self._shards:
                hosted = self._shards[index] = HostedShard(partition, make())
                self._begin(hosted, now_ms, on_loaded)
        return lost

    def _goes_on(self, hosted: HostedShard[S], led: dict[int, Partition]) -> bool:
        if led.get(hosted.partition.index) is not hosted.partition:
            return False
        if hosted.partition.leader_epoch == hosted.leader_epoch:
            return True
        return not (self._reloads_in_new_epoch or hosted.has_failed)

    def close(self) -> list[HostedShard[S]]:
        """Drop all shards; return them."""
        shards = list(self._shards.values())
        self._shards.clear()
        for hosted in shards:
            hosted.cancel()
        return shards

    def _begin(
        self, hosted: HostedShard[S], now_ms: Callable[[], int], on_loaded: Callable[[HostedShard[S]], None]
    ) -> None:
        if hosted.partition.log.log_end_offset == hosted.partition.log.log_start_offset:
            # Most partitions of a new node are empty and need no task.
            hosted.is_active = True
            return
        hosted.loading = self._spawn(self._load(hosted, now_ms, on_loaded))

    async def _load(
        self, hosted: HostedShard[S], now_ms: Callable[[], int], on_loaded: Callable[[HostedShard[S]], None]
    ) -> None:
        partition, at_ms = hosted.partition, now_ms()
        try:
            count = await replay_log(
                partition.log,
                self._runtime.threads,
                lambda batch, header: self._replay(hosted.shard, batch, header, at_ms),
                buffer_bytes=self._load_buffer_bytes(),
            )
        except InvariantError:
            raise
        except Exception:
            # The partition stays in the state of loading: its requests are refused, all others continue.
            logger.exception("Cannot load %s-%d", partition.topic, partition.index)
            hosted.has_failed = True
            return
        if not await _wait_until_replicated(partition):
            # The current leader loads it.
            return
        hosted.loading = None
        hosted.is_active = True
        logger.info("Loaded %d records of %s-%d", count, partition.topic, partition.index)
        on_loaded(hosted)


async def _wait_until_replicated(partition: Partition) -> bool:
    """Wait until the whole log is replicated; return whether this node has led the partition since."""
    leader_epoch = partition.leader_epoch
    required = RequiredOffset(partition.log.log_end_offset, leader_epoch, spans_epochs=True)
    if partition.log.high_watermark < required.offset:
        await Delayed(lambda: None, ReachedOffsets({partition: required}, replicated)).start(WITHOUT_LIMIT_MS)
    return partition.has_led_since(leader_epoch)
