"""Producer ids come from recorded blocks."""

from __future__ import annotations

import asyncio

from crabka.controller.producer_ids import BLOCK_SIZE
from tests.support.sim_node import SimNode


def test_ids_go_on_over_the_end_of_a_block(node: SimNode) -> None:
    async def main() -> list[int]:
        return [await node.context.producer_ids.allocate() for _ in range(BLOCK_SIZE + 2)]

    assert node.run(main()) == list(range(BLOCK_SIZE + 2))
    assert node.context.image.producer_ids.next_producer_id == 2 * BLOCK_SIZE


def test_those_who_ask_at_once_share_a_block(node: SimNode) -> None:
    async def main() -> set[int]:
        return set(await asyncio.gather(*(node.context.producer_ids.allocate() for _ in range(20))))

    assert node.run(main()) == set(range(20))
    assert node.context.image.producer_ids.next_producer_id == BLOCK_SIZE


def test_the_block_names_the_broker_epoch(node: SimNode) -> None:
    assert node.context.producer_ids.broker_epoch == node.context.image.cluster.brokers[1].epoch
