"""The metadata topic on a whole node in virtual time: what was acknowledged is there after power cuts."""

from __future__ import annotations

import asyncio
import random

import pytest

from crabka.remote.errors import RemoteStorageError
from crabka.remote_topic.boot import start_topic_based_manager
from crabka.remote_topic.kafka_event_log import KafkaMetadataEventLogConfig
from crabka.remote_topic.manager import TopicBasedRemoteLogMetadataManager
from crabka.remote_topic.settings import RemoteTopicSettings
from crabka.testing.remote_samples import sample_segment, sample_update
from tests.support.nodes.sim_node import NODE_HOST, SimNode
from tests.support.scale import scaled
from tests.support.tier_topic.events import FINISHED, partition_named
from tests.support.tier_topic.manager import until

PARTITIONS = [partition_named("t", index) for index in range(6)]
SETTINGS = RemoteTopicSettings(num_partitions=3, replication_factor=1, consume_wait_ms=20_000)
DIRECTORY = "/d1"


class CopyingNode:
    """A node, its manager, and what the manager promised."""

    def __init__(self, sim: SimNode, rng: random.Random) -> None:
        self.sim = sim
        self.rng = rng
        self.finished: dict[int, int] = dict.fromkeys(range(len(PARTITIONS)), 0)
        self.manager: TopicBasedRemoteLogMetadataManager

    async def start_manager(self) -> None:
        config = KafkaMetadataEventLogConfig(bootstrap=f"{NODE_HOST}:9092", node_id=1, topic=SETTINGS)
        self.manager = await start_topic_based_manager(self.sim.runtime, config, DIRECTORY)
        self.manager.on_partition_leadership_changes(PARTITIONS, [])
        await until(lambda: all(self.manager.is_ready(partition) for partition in PARTITIONS))

    async def copy(self, index: int, count: int) -> None:
        for _ in range(count):
            start = self.finished[index] * 10
            # A copy that was not acknowledged may be in the log: another one has another id.
            number = self.rng.getrandbits(64)
            segment = sample_segment(number, (start, start + 9), partition=PARTITIONS[index])
            try:
                await self.manager.add_segment(segment)
                await self.manager.update_segment(sample_update(segment, FINISHED))
            except RemoteStorageError:
                continue
            self.finished[index] += 1

    async def work(self) -> None:
        await asyncio.gather(*(self.copy(index, self.rng.randrange(4)) for index in range(len(PARTITIONS))))

    def check(self) -> None:
        for index, partition in enumerate(PARTITIONS):
            highest = self.manager.highest_offset_for_epoch(partition, 0)
            copied = self.finished[index] * 10
            assert copied <= (-1 if highest is None else highest) + 1 <= copied + 10
            for offset in range(0, copied, 10):
                assert self.manager.remote_log_segment_metadata(partition, 0, offset) is not None


@pytest.mark.parametrize("run", range(scaled(3, 100)))
def test_what_a_manager_acknowledged_survives_power_cuts_and_restarts(run: int, rng: random.Random) -> None:
    with SimNode() as sim:
        node = CopyingNode(sim, rng)
        sim.run(node.start_manager())
        for _ in range(4):
            sim.run(node.work())
            if rng.random() < 0.5:
                sim.run(node.manager._snapshots.write_dirty())
            working = sim.loop.create_task(node.work())
            sim.advance(rng.choice([0, 1, 5, 20]))
            if rng.random() < 0.7:
                sim.crash()
                assert working.done()
            else:
                sim.run(asyncio.wait([working]))
                sim.run(node.manager.stop())
                sim.stop()
            sim.start()
            sim.run(node.start_manager())
            node.check()
        sim.run(node.manager.stop())
