"""Blocks of producer ids."""

from __future__ import annotations

import pytest

from crabka.controller.decisions.producer_ids import BLOCK_SIZE, ProducerIdBlock, allocate_block
from crabka.errors import OperationError
from crabka.metadata.records import ProducerIdsRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster


def test_blocks_follow_each_other() -> None:
    image = cluster(1)
    first = allocate_block(image, broker_id=1, broker_epoch=1)
    assert first.result == ProducerIdBlock(0, BLOCK_SIZE)
    assert first.records == [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=BLOCK_SIZE)]
    second = allocate_block(applied(image, first.records), broker_id=1, broker_epoch=1)
    assert second.result.first_id == BLOCK_SIZE


def test_brokers_never_share_a_block() -> None:
    image = cluster(1, 2)
    blocks = []
    for broker_id in (1, 2, 1):
        outcome = allocate_block(image, broker_id=broker_id, broker_epoch=broker_id)
        image = applied(image, outcome.records)
        blocks.append(outcome.result.first_id)
    assert blocks == [0, BLOCK_SIZE, 2 * BLOCK_SIZE]


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 2), (3, 3)])
def test_a_stale_incarnation_gets_no_block(broker_id: int, broker_epoch: int) -> None:
    with pytest.raises(OperationError) as caught:
        allocate_block(cluster(1), broker_id=broker_id, broker_epoch=broker_epoch)
    assert caught.value.error_code is ErrorCode.stale_broker_epoch


def test_ids_do_not_start_again_from_zero() -> None:
    used_up = ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=2**63 - BLOCK_SIZE)
    with pytest.raises(OperationError) as caught:
        allocate_block(applied(cluster(1), [used_up]), broker_id=1, broker_epoch=1)
    assert caught.value.error_code is ErrorCode.unknown_server_error
