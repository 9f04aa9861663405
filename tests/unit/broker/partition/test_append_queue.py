"""The order of appends that wait for a thread."""

from __future__ import annotations

import asyncio

import pytest

from crabka.broker.partition.append_queue import (
    MAX_INLINE_DECOMPRESSION_BYTES,
    MAX_INLINE_PREPARATION_BYTES,
    MAX_INLINE_RECORDS,
)
from crabka.broker.partition.partition import Partition
from crabka.errors import OperationError
from crabka.log.partition.decompression import MAX_DECOMPRESSED_BYTES
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from tests.support.nodes.sim_node import SimNode, batch
from tests.support.storage.replicas import replicated_image

HEADER = parse_header(batch(b"a"))


@pytest.fixture
def partition(node: SimNode) -> Partition:
    node.create_topic("t")
    return node.context.partitions.by_name("t", 0)


def test_small_batches_are_prepared_in_place(node: SimNode, partition: Partition) -> None:
    assert not partition.queue.is_needed(1 << 20, HEADER)
    assert partition.queue.is_needed(1, HEADER, validate=True)
    node.set_configs(2, "t", compression_type="gzip")
    assert not partition.queue.is_needed(MAX_INLINE_PREPARATION_BYTES, HEADER)
    assert partition.queue.is_needed(MAX_INLINE_PREPARATION_BYTES + 1, HEADER)
    compressed = HEADER._replace(attributes=4)
    assert not partition.queue.is_needed(MAX_INLINE_DECOMPRESSION_BYTES, compressed)
    assert partition.queue.is_needed(MAX_INLINE_DECOMPRESSION_BYTES + 1, compressed)
    assert partition.queue.is_needed(100, HEADER._replace(records_count=MAX_INLINE_RECORDS + 1))


def test_a_batch_behind_one_in_the_pool_queues(node: SimNode, partition: Partition) -> None:
    records = batch(bytes(5000))

    async def main() -> None:
        node.context.runtime.threads.submit(int)
        append = partition.queue.append(node.context.runtime.threads, records, parse_header(records), 0)
        assert partition.queue.is_needed(1, HEADER)
        await append
        assert not partition.queue.is_needed(1, HEADER)

    node.run(main())
    assert partition.log.log_end_offset == 1


def test_a_batch_is_decompressed_when_others_leave_it_the_memory(node: SimNode, partition: Partition) -> None:
    node.set_configs(2, "t", compression_type="zstd")
    records, budget = batch(b"a"), partition.log.decompression
    others: asyncio.Future[None] = node.loop.create_future()

    class OtherThreads:
        """Where the batch of another request takes its time."""

        def submit(self, _fn: object, *_: object) -> asyncio.Future[None]:
            return others

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(budget.run(OtherThreads(), MAX_DECOMPRESSED_BYTES, list))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            append = asyncio.ensure_future(
                partition.queue.append(node.context.runtime.threads, records, parse_header(records), 0)
            )
            await asyncio.sleep(1)
            assert not append.done()
            others.set_result(None)
            assert (await append).first_offset == 0

    node.run(main())
    assert budget.used_bytes == 0


def test_leadership_lost_in_the_pool_refuses_the_append(node: SimNode, partition: Partition) -> None:
    records = batch(bytes(5000))

    async def main() -> None:
        append = partition.queue.append(node.context.runtime.threads, records, parse_header(records), 0)
        partition.become(replicated_image(1, replicas=(1,), leader=2, leader_epoch=1), node_id=1)
        await append

    with pytest.raises(OperationError) as caught:
        node.run(main())
    assert caught.value.error_code is ErrorCode.not_leader_or_follower
    assert partition.log.log_end_offset == 0


def test_a_new_epoch_begins_behind_a_batch_on_its_way(node: SimNode, partition: Partition) -> None:
    records = batch(b"a", b"b")
    partition.writer.note_append(1_000_000)

    async def main() -> None:
        append = asyncio.ensure_future(
            partition.queue.append(node.context.runtime.threads, records, parse_header(records), 0)
        )
        await asyncio.sleep(0)
        partition.become(replicated_image(1, replicas=(1,), leader=1, leader_epoch=5), node_id=1)
        assert (await append).first_offset == 0

    node.run(main())
    assert partition.log.leader_epochs.entries == [(0, 0), (5, 2)]


def test_a_log_to_be_flushed_and_a_slow_dir_queue(node: SimNode, partition: Partition) -> None:
    node.set_configs(2, "t", flush_messages="2")
    assert not partition.queue.is_needed(1, HEADER)
    partition.append(batch(b"a"), HEADER, node.clock.now_ms())
    assert partition.queue.is_needed(1, HEADER)
    node.set_configs(2, "t", flush_messages=None)
    assert not partition.queue.is_needed(1, HEADER)
    partition.writer.note_append(1_000_000)
    assert partition.queue.is_needed(1, HEADER)


def test_a_follower_changes_the_log_behind_the_appends_that_wait(node: SimNode, partition: Partition) -> None:
    records = batch(b"a", b"b")
    partition.writer.note_append(1_000_000)

    async def main() -> int:
        append = asyncio.ensure_future(
            partition.queue.append(node.context.runtime.threads, records, parse_header(records), 0)
        )
        await asyncio.sleep(0)
        async with partition.queue.turn():
            assert append.done()
            # An append that comes now has to wait for the end of the change.
            assert partition.queue.is_needed(1, HEADER)
            end_offset = partition.log.log_end_offset
        assert partition.queue.length == 0
        return end_offset

    assert node.run(main()) == 2
