"""The shards that this node runs: loaded when it leads their partition, dropped when it does not any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.broker.groups.loader import load_shard
from crabka.broker.groups.shard import GroupShard
from crabka.errors import CrabkaError, OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from crabka.broker.groups.membership import ClassicSettings
    from crabka.broker.partition import Partition
    from crabka.broker.partitions import PartitionRegistry
    from crabka.config.server import ServerConfig
    from crabka.ports import Runtime

log = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"


def java_hash(text: str) -> int:
    """Return Java's hash code of a string, which is made of its UTF-16 code units."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition of `__consumer_offsets` that keeps a group; as Kafka, the lowest hash counts as 0."""
    hashed = java_hash(group_id)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % partition_count


class HostedShard:
    """A shard with the partition that it lives in."""

    __slots__ = ("is_active", "loading", "partition", "shard")

    def __init__(self, partition: Partition, shard: GroupShard) -> None:
        self.partition = partition
        self.shard = shard
        self.loading: asyncio.Future[Any] | None = None
        self.is_active = False

    def cancel(self) -> None:
        """Stop loading; nothing of the shard counts any more."""
        self.is_active = False
        if self.loading is not None:
            self.loading.cancel()


class ShardRegistry:
    """All shards of a node, by partition."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: PartitionRegistry,
        spawn: Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]],
        config: Callable[[], ServerConfig],
    ) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._spawn = spawn
        self._config = config
        self._shards: dict[int, HostedShard] = {}

    def __iter__(self) -> Iterator[HostedShard]:
        return iter(list(self._shards.values()))

    def get(self, index: int) -> HostedShard:
        """Return the shard of a partition.

        Raises OperationError: NOT_COORDINATOR if it is not here, COORDINATOR_LOAD_IN_PROGRESS.
        """
        hosted = self._shards.get(index)
        if hosted is None or not hosted.partition.is_leader:
            raise OperationError(ErrorCode.not_coordinator)
        if not hosted.is_active:
            raise OperationError(ErrorCode.coordinator_load_in_progress)
        return hosted

    def follow_leadership(
        self, settings: ClassicSettings, now_ms: Callable[[], int], on_loaded: Callable[[HostedShard], None]
    ) -> list[HostedShard]:
        """Begin to load shards whose partitions are led here now; return those that are not any more."""
        led = {index: each for index, each in self._partitions.of_topic(OFFSETS_TOPIC).items() if each.is_leader}
        lost = [hosted for index, hosted in self._shards.items() if led.get(index) is not hosted.partition]
        for hosted in lost:
            del self._shards[hosted.partition.index]
            hosted.cancel()
        for index, partition in led.items():
            if index not in self._shards:
                hosted = self._shards[index] = HostedShard(partition, GroupShard(settings))
                self._begin(hosted, now_ms, on_loaded)
        return lost

    def close(self) -> list[HostedShard]:
        """Drop all shards; return them."""
        shards = list(self._shards.values())
        self._shards.clear()
        for hosted in shards:
            hosted.cancel()
        return shards

    def _begin(self, hosted: HostedShard, now_ms: Callable[[], int], on_loaded: Callable[[HostedShard], None]) -> None:
        if hosted.partition.log.log_end_offset == hosted.partition.log.log_start_offset:
            # Most partitions of a new node are empty: nothing to wait for.
            hosted.is_active = True
            return
        hosted.loading = self._spawn(self._load(hosted, now_ms, on_loaded))

    async def _load(
        self, hosted: HostedShard, now_ms: Callable[[], int], on_loaded: Callable[[HostedShard], None]
    ) -> None:
        partition = hosted.partition
        try:
            count = await load_shard(
                hosted.shard,
                partition.log,
                self._runtime.threads,
                buffer_bytes=self._config().offsets_load_buffer_size,
                now_ms=now_ms(),
            )
        except (CrabkaError, OSError):
            # The partition stays in the state of loading: its groups are refused, all others go on.
            log.exception("Cannot load the groups of %s-%d", partition.topic, partition.index)
            return
        hosted.loading = None
        hosted.is_active = True
        log.info(
            "Loaded %d records of %s-%d: %d groups", count, partition.topic, partition.index, len(hosted.shard.groups)
        )
        on_loaded(hosted)
