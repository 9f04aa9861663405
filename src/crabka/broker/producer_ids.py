"""Producer ids for this node, taken from blocks that the metadata hands out.

A block is recorded (ProducerIdsRecord) before its first id is used, so that no id is given twice, whatever
happens to the node; what is left of a block at a stop is never used.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabka.controller.producer_ids import allocate_block

if TYPE_CHECKING:
    from crabka.broker.metadata_writer import MetadataWriter


class ProducerIdAllocator:
    """Gives out ids one by one and fetches the next block when the current one is used up."""

    def __init__(self, writer: MetadataWriter, *, node_id: int) -> None:
        self._writer = writer
        self._node_id = node_id
        # Known once the node is registered, before it serves requests.
        self.broker_epoch = -1
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def allocate(self) -> int:
        """Return a producer id that was never given before."""
        while self._next == self._end:
            async with self._refill:
                if self._next == self._end:
                    await self._fetch_block()
        self._next += 1
        return self._next - 1

    async def _fetch_block(self) -> None:
        block = await self._writer.submit(
            lambda image: allocate_block(image, broker_id=self._node_id, broker_epoch=self.broker_epoch)
        )
        self._next = block.first_id
        self._end = block.first_id + block.size
