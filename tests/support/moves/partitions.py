"""Partitions whose leadership a test moves and whose high watermark it holds back, and requests that wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

from crabka.broker.partition.partition import Partition
from crabka.metadata.records import PartitionChangeRecord
from crabka.metadata.requests import Outcome
from crabka.protocol.apis import ApiKey
from tests.support.nodes.sim_node import SimNode, build

NO_LEADER = -1


class HeldWatermark:
    """A partition with a follower that fetches when the test says so."""

    def __init__(self, node: SimNode, partition: Partition) -> None:
        self._node = node
        self.partition = partition
        partition.replica_count = 2
        vars(partition.log)["set_high_watermark"] = lambda _offset: None

    def advance(self) -> None:
        """Let the follower have all that is there now."""

        async def advance() -> None:
            log = self.partition.log
            log.state.set_high_watermark(log.log_end_offset)
            for waiter in tuple(self.partition.waiters.for_readable):
                waiter.progressed(self.partition, 1)

        self._node.run(advance())
        self._node.advance(5)

    def let_go(self) -> None:
        """Let the follower keep up from now on."""
        vars(self.partition.log)["set_high_watermark"] = self.partition.log.state.set_high_watermark
        self.partition.replica_count = 1
        self.advance()


class Posted:
    """A request on a connection of its own that may have to wait."""

    def __init__(self, node: SimNode, api_key: ApiKey, version: int, **fields: Any) -> None:
        self._node = node
        self._client = node.connect()
        self._api_key = api_key
        self._version = version
        self._client.post(api_key, version, build(api_key, version, **fields))
        node.advance(20)

    @property
    def is_answered(self) -> bool:
        """Whether the answer is there."""
        return bool(self._client._frames)

    def answer(self) -> Any:
        """Return the answer, which has to come now."""
        self._node.advance(20)
        assert self.is_answered, "no answer"
        return self._node.run(self._client.response(self._api_key, self._version))[1]


def lead(node: SimNode, partition: Partition, leader: int) -> None:
    """Let the metadata name another leader, or the same one, in the next epoch."""
    record = PartitionChangeRecord(partition_id=partition.index, topic_id=partition.topic_id, leader=leader)
    node.run(node.metadata_writer.submit(lambda _image: Outcome(None, [record])))
    assert partition.is_leader == (leader == node.context.node_id)
    node.run(asyncio.sleep(0))
