"""Decisions run one at a time, each on everything decided before."""

from __future__ import annotations

import asyncio

import pytest

from crabka.controller.outcome import Outcome
from crabka.errors import OperationError
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import ProducerIdsRecord
from crabka.protocol.error_codes import ErrorCode
from tests.support.sim_node import SimNode


def next_block(image: MetadataImage) -> Outcome[int]:
    first = max(0, image.producer_ids.next_producer_id)
    return Outcome(first, [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=first + 10)])


def test_each_decision_sees_the_one_before(node: SimNode) -> None:
    async def main() -> list[int]:
        writer = node.metadata_writer
        return list(await asyncio.gather(*(writer.submit(next_block) for _ in range(5))))

    assert node.run(main()) == [0, 10, 20, 30, 40]


def test_the_result_comes_when_the_records_are_durable(node: SimNode) -> None:
    node.run(node.metadata_writer.submit(next_block))
    node.crash()
    node.start()
    assert node.context.image.producer_ids.next_producer_id == 10


def test_a_decision_without_records_writes_nothing(node: SimNode) -> None:
    before = node.context.quorum.next_offset
    assert node.run(node.metadata_writer.submit(lambda _image: Outcome("seen"))) == "seen"
    assert node.context.quorum.next_offset == before


def test_a_refusal_leaves_the_writer_usable(node: SimNode) -> None:
    def refuse(_image: MetadataImage) -> Outcome[None]:
        raise OperationError(ErrorCode.invalid_request)

    with pytest.raises(OperationError):
        node.run(node.metadata_writer.submit(refuse))
    assert node.run(node.metadata_writer.submit(next_block)) == 0
