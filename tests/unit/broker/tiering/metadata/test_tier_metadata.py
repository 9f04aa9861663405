"""The metadata of the tier as the broker uses it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection
from typing import Any

import pytest

from crabka.broker.tiering.metadata.tier_metadata import PartitionLookup, TierMetadata
from crabka.remote.errors import InvalidSegmentTransitionError, NotReadyError
from crabka.remote.inmemory import InmemoryRemoteLogMetadataManager
from crabka.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from tests.support.async_tests import real_time, run_with
from tests.support.tiers.segment_metadata import FINISHED, ORDERS, STARTED, remote_segment

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


OTHER = TopicIdPartition(uuid.UUID(int=2), "other", 0)
GONE = TopicIdPartition(uuid.UUID(int=3), "gone", 0)

CALLS: dict[str, Callable[[TierMetadata], Any]] = {
    "add": lambda metadata: asyncio.run(metadata.add_segment(BEGUN)),
    "update": lambda metadata: asyncio.run(metadata.update_segment(DONE)),
    "delete": lambda metadata: asyncio.run(metadata.put_partition_delete(MARK)),
    "catch up": lambda metadata: asyncio.run(metadata.catch_up(ORDERS)),
    "find": lambda metadata: metadata.remote_log_segment_metadata(ORDERS, 0, 0),
    "highest": lambda metadata: metadata.highest_offset_for_epoch(ORDERS, 0),
    "list": lambda metadata: metadata.list_remote_log_segments(ORDERS),
    "list of epoch": lambda metadata: metadata.list_remote_log_segments(ORDERS, 0),
    "notices": lambda metadata: metadata.active_notices(ORDERS),
    "txn index": lambda metadata: metadata.next_segment_with_txn_index(ORDERS, 0, 0),
    "require": lambda metadata: metadata.require_ready(ORDERS),
}


class Manager(InmemoryRemoteLogMetadataManager):
    """Has coroutines for changes, and writes down what it is notified of."""

    def __init__(self) -> None:
        super().__init__()
        self.caught_up: list[TopicIdPartition] = []
        self.notices: list[tuple[str, ...]] = []

    def on_partition_leadership_changes(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        self.notices.append(("lead", *(name.topic for name in leaders), "follow", *(name.topic for name in followers)))

    def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        self.notices.append(("stop", *(name.topic for name in partitions)))

    def partitions_of_own(self) -> list[TopicIdPartition]:
        return self.partitions()

    def subscribe_doubts(self, listener: Callable[[], None]) -> None:
        raise NotImplementedError

    async def catch_up(self, partition: TopicIdPartition) -> None:
        self.caught_up.append(partition)

    async def add_segment(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.add_remote_log_segment_metadata(metadata)

    async def update_segment(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        self.update_remote_log_segment_metadata(update)

    async def put_partition_delete(self, metadata: RemotePartitionDeleteMetadata) -> None:
        self.put_remote_partition_delete_metadata(metadata)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_without_a_manager_every_call_is_to_be_tried_again(call: Callable[[TierMetadata], Any]) -> None:
    with pytest.raises(NotReadyError, match="orders-0") as refused:
        call(TierMetadata())
    assert refused.value.retriable


def test_without_a_manager_nothing_is_ready_and_notices_are_accepted() -> None:
    metadata = TierMetadata()
    metadata.on_partition_leadership_changes([ORDERS], [])
    metadata.on_stop_partitions([ORDERS])
    assert not metadata.is_ready(ORDERS)
    assert list(metadata.partitions_of_own()) == []


@run_with(real_time)
async def test_the_manager_that_is_installed_answers() -> None:
    metadata, manager = TierMetadata(), Manager()
    metadata.install(manager)
    metadata.require_ready(ORDERS)
    await metadata.add_segment(BEGUN)
    await metadata.catch_up(ORDERS)
    await metadata.update_segment(DONE)
    found = metadata.remote_log_segment_metadata(ORDERS, 0, 5)
    assert found is not None
    assert (found.segment_id, found.state) == (BEGUN.segment_id, FINISHED)
    assert found is manager.remote_log_segment_metadata(ORDERS, 0, 5)
    assert metadata.highest_offset_for_epoch(ORDERS, 0) == 9
    assert [each.segment_id for each in metadata.list_remote_log_segments(ORDERS)] == [BEGUN.segment_id]
    assert list(metadata.list_remote_log_segments(ORDERS, 1)) == []
    assert metadata.next_segment_with_txn_index(ORDERS, 0, 0) is not None
    assert metadata.active_notices(ORDERS) == []
    unknown = remote_segment(50, 59).segment_id
    with pytest.raises(InvalidSegmentTransitionError):
        await metadata.update_segment(
            RemoteLogSegmentMetadataUpdate(segment_id=unknown, event_timestamp_ms=1, state=FINISHED, broker_id=1)
        )
    await metadata.put_partition_delete(MARK)
    assert manager.partition_delete_metadata(ORDERS) == MARK
    assert manager.caught_up == [ORDERS]
    assert list(metadata.partitions_of_own()) == [ORDERS]


def test_a_manager_that_comes_later_is_notified_of_all_replicas_as_they_are_then() -> None:
    metadata = TierMetadata()
    metadata.on_partition_leadership_changes([ORDERS, GONE], [OTHER])
    metadata.on_partition_leadership_changes([OTHER], [ORDERS])
    metadata.on_stop_partitions([GONE])
    first, second = Manager(), Manager()
    metadata.install(first)
    assert first.notices == [("lead", "other", "follow", "orders")]
    metadata.on_stop_partitions([OTHER])
    assert first.notices[1:] == [("stop", "other")]
    metadata.install(second)
    assert second.notices == [("lead", "follow", "orders")]


def test_a_node_without_replicas_notifies_a_new_manager_of_nothing() -> None:
    manager = Manager()
    TierMetadata().install(manager)
    assert manager.notices == []


def test_a_lookup_speaks_of_one_partition() -> None:
    manager, metadata = Manager(), TierMetadata()
    manager.add_remote_log_segment_metadata(BEGUN)
    manager.update_remote_log_segment_metadata(DONE)
    metadata.install(manager)
    lookup = PartitionLookup(metadata, ORDERS)
    found = lookup.segment_at(0, 3)
    assert found is not None
    assert found.segment_id == BEGUN.segment_id
    assert (lookup.segment_at(1, 3), lookup.highest_offset(0), lookup.highest_offset(1)) == (None, 9, None)
