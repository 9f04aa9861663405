"""A follower of a real node: produced with acks=all, a record is on both before anybody hears that it is there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crabka.ids import DIRECTORY_UNASSIGNED
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import PartitionRecord, TopicRecord
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.following import FOLLOWER, TOPIC, FollowerWorld
from tests.support.images import register_broker, registration, topic_id_of, unfence_broker
from tests.support.logs import read_batches
from tests.support.sim_node import SimNode, batch, produce_body

LEADER = 1


class ReplicatedPair:
    """A node that leads and a follower, with the same metadata."""

    def __init__(self, node: SimNode, seed: int) -> None:
        self.node = node
        self.world = FollowerWorld(node.loop, seed=seed, network=node.network)
        self.world.image = node.context.image
        node.run(self.world.start())
        node.context.quorum.subscribe(self._learn)
        writer = node.metadata_writer
        node.run(writer.submit(lambda image: register_broker(image, registration(FOLLOWER), broker_epoch=77)))
        node.run(writer.submit(lambda image: unfence_broker(image, FOLLOWER)))

    def _learn(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.world.image = image
        self.world.publisher.on_metadata(delta, image)

    def create(self, partition_count: int) -> None:
        """Create the topic, led by the node."""
        replicas = (LEADER, FOLLOWER)
        records = [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id_of(TOPIC),
                replicas=replicas,
                isr=replicas,
                leader=LEADER,
                leader_epoch=0,
                partition_epoch=0,
                directories=(DIRECTORY_UNASSIGNED,) * 2,
            )
            for index in range(partition_count)
        ]
        topic = TopicRecord(name=TOPIC, topic_id=topic_id_of(TOPIC))

        async def append() -> None:
            await self.node.context.quorum.append([topic, *records])

        self.node.run(append())


@contextmanager
def pair(seed: int = 1) -> Iterator[ReplicatedPair]:
    with SimNode() as node:
        both = ReplicatedPair(node, seed)
        try:
            yield both
        finally:
            node.run(both.world.stop())


def test_a_record_is_acknowledged_when_the_follower_has_it() -> None:
    with pair() as both:
        both.create(1)
        for number in range(20):
            produced = both.node.produce(TOPIC, batch(b"%d" % number), acks=-1)
            assert (produced.error_code, produced.base_offset) == (ErrorCode.none, number)
            assert both.world.partition().log.log_end_offset > number
        assert both.node.values(TOPIC) == [b"%d" % number for number in range(20)]
        both.node.advance(1000)
        assert both.world.partition().log.high_watermark == 20


def test_without_its_follower_nothing_is_acknowledged() -> None:
    with pair() as both:
        both.create(1)
        assert both.node.produce(TOPIC, batch(b"0"), acks=-1).error_code == ErrorCode.none
        both.node.network.partition("node", "host-2")
        client = both.node.connect()
        client.post(ApiKey.PRODUCE, 9, produce_body(TOPIC, batch(b"1"), version=9, acks=-1, timeout=60_000))
        both.node.advance(20_000)
        assert both.node.values(TOPIC) == [b"0"]
        both.node.network.heal("node", "host-2")
        both.node.run(client.frame())
        assert both.node.values(TOPIC) == [b"0", b"1"]


@pytest.mark.parametrize("seed", range(5))
def test_a_follower_that_loses_power_has_everything_in_the_end(seed: int) -> None:
    rng = random.Random(seed)
    with pair(seed) as both:
        both.create(3)
        for _ in range(6):
            for _ in range(rng.randint(1, 10)):
                index = rng.randrange(3)
                assert both.node.produce(TOPIC, batch(b"v"), partition=index, acks=1).error_code == ErrorCode.none
            both.node.advance(rng.randint(0, 200))
            if rng.random() < 0.5:
                both.node.run(both.world.crash(rng))
                both.node.run(both.world.start())
            if rng.random() < 0.3:
                both.node.network.cut("node", "host-2")
        both.node.advance(5000)
        for index in range(3):
            mine, theirs = both.world.partition(index), both.node.context.partitions.by_name(TOPIC, index)
            assert read_batches(mine.log) == read_batches(theirs.log)
            assert mine.log.high_watermark == theirs.log.high_watermark == theirs.log.log_end_offset
