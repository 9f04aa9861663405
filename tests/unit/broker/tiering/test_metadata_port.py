"""The tier's metadata behind the port of the broker."""

from __future__ import annotations

import asyncio

import pytest

from crabka.broker.tiering.metadata_port import PartitionLookup, PooledTierMetadata
from crabka.remote.errors import InvalidSegmentTransitionError, NotReadyError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from crabka.remote.switching import NotReadyRlmm, SwappableRlmm
from crabka.runtime import ThreadPool
from tests.support.remote_segments import FINISHED, ORDERS, STARTED, remote_segment

BEGUN = remote_segment(0, 9, state=STARTED)
DONE = RemoteLogSegmentMetadataUpdate(
    segment_id=BEGUN.segment_id, event_timestamp_ms=1, state=FINISHED, broker_id=1, custom_metadata=None
)
MARK = RemotePartitionDeleteMetadata(
    topic_id_partition=ORDERS,
    state=RemotePartitionDeleteState.DELETE_PARTITION_MARKED,
    event_timestamp_ms=1,
    broker_id=1,
)


class Awaitable(InmemoryRemoteLogMetadataManager):
    """Has coroutines for changes, and refuses to block."""

    def __init__(self) -> None:
        super().__init__()
        self.caught_up: list[TopicIdPartition] = []

    def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> None:
        raise AssertionError("it blocked")

    def partitions_of_own(self) -> list[TopicIdPartition]:
        return self.partitions()

    async def catch_up(self, partition: TopicIdPartition) -> None:
        self.caught_up.append(partition)

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        super().add_remote_log_segment_metadata(metadata)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        super().update_remote_log_segment_metadata(update)

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        super().put_remote_partition_delete_metadata(metadata)


async def live_through(metadata: PooledTierMetadata) -> None:
    await metadata.add_segment(BEGUN)
    await metadata.catch_up(ORDERS)
    await metadata.update_segment(DONE)
    found = metadata.remote_log_segment_metadata(ORDERS, 0, 5)
    assert found is not None
    assert (found.segment_id, found.state) == (BEGUN.segment_id, FINISHED)
    assert metadata.highest_offset_for_epoch(ORDERS, 0) == 9
    assert [each.segment_id for each in metadata.list_remote_log_segments(ORDERS)] == [BEGUN.segment_id]
    assert metadata.remote_log_size(ORDERS, 0) == 100
    assert metadata.next_segment_with_txn_index(ORDERS, 0, 0) is not None
    assert metadata.is_ready(ORDERS)
    with pytest.raises(InvalidSegmentTransitionError):
        await metadata.update_segment(
            RemoteLogSegmentMetadataUpdate(
                segment_id=remote_segment(50, 59).segment_id, event_timestamp_ms=1, state=FINISHED, broker_id=1
            )
        )
    await metadata.put_partition_delete(MARK)


def test_changes_of_a_manager_that_blocks_run_in_the_pool() -> None:
    threads = ThreadPool(1)
    asyncio.run(live_through(PooledTierMetadata(InmemoryRemoteLogMetadataManager(), threads)))
    threads.close()


def test_changes_of_a_manager_that_can_be_awaited_do_not_block() -> None:
    threads = ThreadPool(1)
    manager = Awaitable()
    asyncio.run(live_through(PooledTierMetadata(manager, threads)))
    assert manager.caught_up == [ORDERS]
    threads.close()


def test_the_manager_that_is_swapped_in_is_used() -> None:
    async def main() -> None:
        rlmm = SwappableRlmm(NotReadyRlmm())
        metadata = PooledTierMetadata(rlmm, threads)
        assert not metadata.is_ready(ORDERS)
        assert list(metadata.partitions_of_own()) == []
        with pytest.raises(NotReadyError):
            await metadata.add_segment(BEGUN)
        with pytest.raises(NotReadyError):
            metadata.highest_offset_for_epoch(ORDERS, 0)
        metadata.on_partition_leadership_changes([ORDERS], [])
        rlmm.swap(Awaitable())
        await live_through(metadata)
        assert list(metadata.partitions_of_own()) == [ORDERS]
        metadata.on_stop_partitions([ORDERS])

    threads = ThreadPool(1)
    asyncio.run(main())
    threads.close()


def test_a_lookup_speaks_of_one_partition() -> None:
    threads = ThreadPool(1)
    manager = InmemoryRemoteLogMetadataManager()
    manager.add_remote_log_segment_metadata(BEGUN)
    manager.update_remote_log_segment_metadata(DONE)
    lookup = PartitionLookup(PooledTierMetadata(manager, threads), ORDERS)
    found = lookup.segment_at(0, 3)
    assert found is not None
    assert found.segment_id == BEGUN.segment_id
    assert (lookup.segment_at(1, 3), lookup.highest_offset(0), lookup.highest_offset(1)) == (None, 9, None)
    threads.close()
