"""Decisions run one at a time, each on everything decided before."""

from __future__ import annotations

import asyncio

import pytest

from crabka.errors import OperationError
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import ProducerIdsRecord
from crabka.metadata.requests import Outcome
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import SimNode
from tests.support.quorum.raft_cluster import host_of
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


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


@run_with(run_controllers)
async def test_decisions_do_not_wait_for_each_others_commit(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    writer, offset = node.context.metadata_writer, node.quorum.next_offset
    tasks = [asyncio.ensure_future(writer.submit(next_block)) for _ in range(5)]
    await asyncio.sleep(0)
    assert node.quorum.next_offset == offset + 5
    assert writer.image.producer_ids.next_producer_id == 50
    assert node.quorum.image.producer_ids.next_producer_id == -1
    assert await asyncio.gather(*tasks) == [0, 10, 20, 30, 40]
    assert writer.image is node.quorum.image


@run_with(run_controllers)
async def test_an_answer_waits_for_the_commit_of_what_it_was_based_on(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    writer = node.context.metadata_writer

    def look(image: MetadataImage) -> Outcome[int]:
        return Outcome(image.producer_ids.next_producer_id)

    write = asyncio.ensure_future(writer.submit(next_block))
    await asyncio.sleep(0)
    assert await writer.submit(look) == 10
    assert node.quorum.image.producer_ids.next_producer_id == 10
    await write


@run_with(run_controllers)
async def test_one_who_gives_up_does_not_take_the_others_with_him(cluster: SimControllers, /) -> None:
    writer = (await cluster.active()).context.metadata_writer
    impatient, patient = (asyncio.ensure_future(writer.submit(next_block)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == 10


@run_with(run_controllers, 3)
async def test_nothing_is_decided_where_this_node_is_not_active(cluster: SimControllers, /) -> None:
    writer = (await cluster.passive()).context.metadata_writer
    with pytest.raises(OperationError) as refused:
        await writer.submit(next_block)
    assert refused.value.error_code is ErrorCode.not_controller


@run_with(run_controllers, 3)
async def test_what_was_not_committed_is_forgotten_with_the_leadership(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    writer = node.context.metadata_writer
    cluster.network.isolate(host_of(node.node_id))
    with pytest.raises(OperationError) as lost:
        await writer.submit(next_block)
    assert lost.value.error_code is ErrorCode.not_controller
    assert writer.image is node.quorum.image
    cluster.network.heal_all()
    await cluster.wait(lambda: any(each.service.is_active for each in cluster.nodes))
    active = await cluster.active()
    assert await active.context.metadata_writer.submit(next_block) in (0, 10)
