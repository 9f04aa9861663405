"""Producer ids come from blocks that the controller recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crabka.broker.controller_link.identity import BrokerIdentity
from crabka.broker.controller_link.producer_ids import MAX_WAIT_MS, ProducerIdAllocator
from crabka.controller.decisions.producer_ids import BLOCK_SIZE
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime.task_scope import TaskScope
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.nodes.peer_brokers import FakeController
from tests.support.nodes.sim_node import SimNode


def test_ids_of_a_node_go_on_over_the_end_of_a_block(node: SimNode) -> None:
    async def main() -> list[int]:
        return [await node.context.producer_ids.allocate() for _ in range(BLOCK_SIZE + 2)]

    assert node.run(main()) == list(range(BLOCK_SIZE + 2))
    assert node.context.image.producer_ids.next_producer_id == 2 * BLOCK_SIZE
    assert node.context.identity.broker_epoch == node.context.image.cluster.brokers[1].epoch


class Blocks:
    """A controller that gives out blocks of ten, and a broker that uses them."""

    def __init__(self) -> None:
        self.controller = FakeController(self.answer)
        self.identity = BrokerIdentity(4)
        self.tasks = TaskScope()
        self.allocator = ProducerIdAllocator(self.controller, self.identity, spawn=self.tasks.start)
        self.next = 100
        self.error_code = ErrorCode.none
        self.failure: OperationError | None = None

    def answer(self, _api_key: ApiKey, _body: Any, types: MessageTypes) -> Any:
        if self.failure is not None:
            raise self.failure
        first, self.next = self.next, self.next + 10
        return types.message(throttle_time=0, error_code=self.error_code, producer_id_start=first, producer_id_len=10)

    async def take(self, count: int) -> list[int]:
        return [await self.allocator.allocate() for _ in range(count)]


def with_blocks(test: Callable[[Blocks], Awaitable[None]]) -> None:
    async def main() -> None:
        blocks = Blocks()
        await test(blocks)
        await blocks.tasks.close()

    VirtualTimeLoop().run(main())


@run_with(with_blocks)
async def test_the_controller_receives_the_identity_of_the_broker(blocks: Blocks, /) -> None:
    blocks.identity.broker_epoch = 33
    assert await blocks.take(1) == [100]
    ((api_key, body),) = blocks.controller.asked
    assert (api_key, body.broker_id, body.broker_epoch) == (ApiKey.ALLOCATE_PRODUCER_IDS, 4, 33)


@run_with(with_blocks)
async def test_those_who_ask_at_once_share_a_block(blocks: Blocks, /) -> None:
    taken = await asyncio.gather(*(blocks.allocator.allocate() for _ in range(25)))
    assert sorted(taken) == list(range(100, 125))
    assert len(blocks.controller.asked) == 3


@run_with(with_blocks)
async def test_the_next_block_is_asked_for_before_the_last_is_used_up(blocks: Blocks, /) -> None:
    await blocks.take(9)
    await asyncio.sleep(0)
    assert len(blocks.controller.asked) == 1
    await blocks.take(1)
    await asyncio.sleep(0)
    assert len(blocks.controller.asked) == 2
    blocks.controller.open.clear()
    # It is here already.
    assert await blocks.take(5) == [110, 111, 112, 113, 114]


@run_with(with_blocks)
async def test_a_prefetch_that_fails_is_repeated_when_the_block_is_needed(blocks: Blocks, /) -> None:
    await blocks.take(9)
    blocks.error_code = ErrorCode.broker_id_not_registered
    await blocks.take(1)
    await asyncio.sleep(0)
    blocks.error_code = ErrorCode.none
    assert await blocks.take(1) == [120]


@pytest.mark.parametrize("error_code", [ErrorCode.stale_broker_epoch, ErrorCode.request_timed_out])
@run_with(with_blocks)
async def test_a_client_asks_again_while_there_is_no_block(blocks: Blocks, /, error_code: ErrorCode) -> None:
    if error_code is ErrorCode.request_timed_out:
        blocks.failure = OperationError(error_code)
    else:
        blocks.error_code = error_code
    with pytest.raises(OperationError) as refused:
        await blocks.allocator.allocate()
    assert refused.value.error_code is ErrorCode.coordinator_load_in_progress
    blocks.failure, blocks.error_code = None, ErrorCode.none
    assert len(await blocks.take(1)) == 1


@run_with(with_blocks)
async def test_requests_do_not_wait_for_a_controller_that_is_away(blocks: Blocks, /) -> None:
    blocks.controller.open.clear()
    loop = asyncio.get_running_loop()
    began = loop.time()
    refused = await asyncio.gather(*(blocks.allocator.allocate() for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in refused] == [OperationError] * 3
    assert loop.time() - began == pytest.approx(MAX_WAIT_MS / 1000)
    assert len(blocks.controller.asked) == 1
    blocks.controller.open.set()
    # The answer that comes late is used.
    assert await blocks.take(1) == [100]


@run_with(with_blocks)
async def test_a_block_that_was_given_before_is_not_used(blocks: Blocks, /) -> None:
    await blocks.take(9)
    blocks.next = 105
    await blocks.take(1)
    await asyncio.sleep(0)
    blocks.next = 200
    assert await blocks.take(1) == [200]
