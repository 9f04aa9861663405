"""A transaction in a partition that no coordinator knows: it never ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabka.clients.cluster.connection import Connection
from crabka.protocol.apis import ApiKey
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.runtime import AsyncioNetwork

if TYPE_CHECKING:
    from crabka.protocol.apis import MessageTypes

# A producer that the coordinator has never heard of; longer ago than any transaction may last.
STRAY_PRODUCER_ID = 4711
LONG_AGO_MS = 1_700_000_000_000
# The last version of Produce whose transactional records are not added to the transaction by the broker (KIP-890).
_LAST_VERSION_WITHOUT_ADDING = 11


def leave_hanging(bootstrap: str, topic: str) -> None:
    """Write a record of such a transaction, as a zombie could before KIP-890, to a node without verification."""
    record = Record(0, LONG_AGO_MS, None, b"stray")
    batch = build_batch([record], producer_id=STRAY_PRODUCER_ID, producer_epoch=0, base_sequence=0, transactional=True)

    def body(types: MessageTypes) -> Any:
        partition = types.new("PartitionProduceData", index=0, records=batch)
        data = types.new("TopicProduceData", name=topic, partition_data=[partition])
        return types.message(transactional_id="stray", acks=-1, timeout=30_000, topic_data=[data])

    async def send() -> None:
        host, _, port = bootstrap.rpartition(":")
        connection = await Connection.open(AsyncioNetwork(), host, int(port))
        response = await connection.request(ApiKey.PRODUCE, body, max_version=_LAST_VERSION_WITHOUT_ADDING)
        assert response.responses[0].partition_responses[0].error_code.value == 0, response
        connection.close()
        await connection.wait_closed()

    asyncio.run(send())
