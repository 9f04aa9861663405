"""Blocks of producer ids."""

from __future__ import annotations

from crabka.controller.producer_ids import BLOCK_SIZE, ProducerIdBlock, allocate_block
from crabka.metadata.records import ProducerIdsRecord
from tests.support.images import applied, cluster


def test_blocks_follow_each_other() -> None:
    image = cluster(1)
    first = allocate_block(image, broker_id=1, broker_epoch=7)
    assert first.result == ProducerIdBlock(0, BLOCK_SIZE)
    assert first.records == [ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=BLOCK_SIZE)]
    second = allocate_block(applied(image, first.records), broker_id=1, broker_epoch=7)
    assert second.result.first_id == BLOCK_SIZE
