"""The metadata topic on a whole Crabka node over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crabka.clients import ConfigOwner, NewTopic, ResourceType, SyncAdmin
from crabka.embedded import Broker
from crabka.remote.errors import InvalidSegmentTransitionError
from crabka.remote.segments import RemoteLogSegmentState, TopicIdPartition
from crabka.remote_topic.boot import start_topic_based_manager
from crabka.remote_topic.kafka_event_log import KafkaMetadataEventLogConfig
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager
from crabka.remote_topic.partitioner import metadata_partition_for
from crabka.remote_topic.settings import METADATA_TOPIC, RemoteTopicSettings
from crabka.runtime import real_runtime, run
from crabka.testing.remote_samples import sample_segment, sample_update
from tests.support.tier_topic.events import partition_named

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
PARTITIONS = [partition_named("t", index) for index in range(12)]
ONE_NODE = RemoteTopicSettings(replication_factor=1, consume_wait_ms=30_000)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def managing(bootstrap: str, directory: Path) -> AsyncIterator[TopicBasedRemoteLogMetadataManager]:
    runtime = real_runtime()
    config = KafkaMetadataEventLogConfig(bootstrap=bootstrap, node_id=1, topic=ONE_NODE)
    manager = await start_topic_based_manager(runtime, config, str(directory))
    manager.on_partition_leadership_changes(PARTITIONS, [])
    await until(lambda: all(manager.is_ready(partition) for partition in PARTITIONS))
    try:
        yield manager
    finally:
        await manager.stop()
        runtime.threads.close()


async def copy(manager: TopicBasedRemoteLogMetadataManager, partition: TopicIdPartition, start: int) -> None:
    segment = sample_segment(start + 1, (start, start + 99), partition=partition)
    await manager.add_segment(segment)
    await manager.update_segment(sample_update(segment, FINISHED))


def end_of(manager: TopicBasedRemoteLogMetadataManager, partition: TopicIdPartition) -> int | None:
    return manager.highest_offset_for_epoch(partition, 0)


def test_the_topic_is_made_written_and_read_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with managing(broker.bootstrap_servers, tmp_path / "snapshots") as manager:
            for partition in PARTITIONS:
                await copy(manager, partition, 0)
            segment = sample_segment(9, (0, 9), partition=PARTITIONS[0])
            with pytest.raises(InvalidSegmentTransitionError):
                await manager.update_segment(sample_update(segment, FINISHED))
            await asyncio.gather(*(copy(manager, PARTITIONS[0], start) for start in range(100, 2_000, 100)))
            assert end_of(manager, PARTITIONS[0]) == 1_999
            assert [end_of(manager, partition) for partition in PARTITIONS[1:]] == [99] * 11

    with Broker(data_dir=str(tmp_path / "data")) as broker:
        run(test())
        with SyncAdmin(broker.bootstrap_servers) as admin:
            assert len(admin.describe_topics([METADATA_TOPIC])[METADATA_TOPIC].partitions) == 50
            configs = admin.describe_configs(ConfigOwner(ResourceType.TOPIC, METADATA_TOPIC))
            assert {name: configs[name].value for name in ONE_NODE.topic_configs()} == ONE_NODE.topic_configs()


def test_a_topic_with_another_count_is_used_as_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with managing(broker.bootstrap_servers, tmp_path / "snapshots") as manager:
            await copy(manager, PARTITIONS[3], 0)

    with Broker(data_dir=str(tmp_path / "data")) as broker:
        with SyncAdmin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(METADATA_TOPIC, 3, 1)])
        run(test())
        with SyncAdmin(broker.bootstrap_servers) as admin:
            (log_dir,) = admin.log_dirs.describe(1)
            written = {key for key, replica in log_dir.replicas.items() if replica.size_bytes}
            assert (METADATA_TOPIC, metadata_partition_for(PARTITIONS[3], 3)) in written


def test_a_manager_goes_on_when_its_broker_was_restarted(tmp_path: Path) -> None:
    async def test(first: Broker) -> None:
        address = first.bootstrap_servers
        async with managing(address, tmp_path / "snapshots") as manager:
            await copy(manager, PARTITIONS[0], 0)
            await asyncio.to_thread(first.stop)
            # Reads are answered meanwhile, and a change waits for the broker.
            assert end_of(manager, PARTITIONS[0]) == 99
            change = asyncio.ensure_future(copy(manager, PARTITIONS[0], 100))
            async with Broker(data_dir=str(tmp_path / "data"), port=int(address.rpartition(":")[2])):
                await change
                assert end_of(manager, PARTITIONS[0]) == 199
                async with managing(address, tmp_path / "others") as other:
                    assert other.status().events_applied == 4
                    await copy(other, PARTITIONS[1], 0)
                    await until(lambda: end_of(manager, PARTITIONS[1]) == 99)

    with Broker(data_dir=str(tmp_path / "data")) as first:
        run(test(first))


def test_a_restarted_node_knows_from_its_snapshots_and_the_topic(tmp_path: Path) -> None:
    async def write(bootstrap: str) -> None:
        async with managing(bootstrap, tmp_path / "snapshots") as manager:
            await copy(manager, PARTITIONS[0], 0)
        async with managing(bootstrap, tmp_path / "others") as manager:
            await copy(manager, PARTITIONS[0], 100)

    async def read(bootstrap: str) -> None:
        async with managing(bootstrap, tmp_path / "snapshots") as manager:
            # Two of four events are in the snapshot.
            assert manager.status().events_applied == 2
            assert end_of(manager, PARTITIONS[0]) == 199
        async with managing(bootstrap, tmp_path / "none") as manager:
            assert manager.status().events_applied == 4
            assert end_of(manager, PARTITIONS[0]) == 199

    for step in (write, read):
        with Broker(data_dir=str(tmp_path / "data")) as broker:
            run(step(broker.bootstrap_servers))
