"""What handlers share."""

from __future__ import annotations

import asyncio

from crabka.broker.context import REQUEST_JOBS_AT_ONCE
from tests.support.async_tests import run_with
from tests.support.nodes.sim_node import SimNode


def test_the_image_is_always_the_newest(node: SimNode) -> None:
    context = node.context
    before = context.image
    node.create_topic("t")
    assert "t" in context.image.topics.by_name
    assert context.image is not before
    assert context.node_id == 1


@run_with(lambda test, node: node.run(test()))
async def test_many_requests_wait_for_threads_instead_of_filling_the_pool(node: SimNode) -> None:
    threads = node.context.request_threads
    jobs = [threads.submit(abs, -number) for number in range(REQUEST_JOBS_AT_ONCE + 5)]
    assert threads.waiting_count == 5
    assert await asyncio.gather(*jobs) == list(range(REQUEST_JOBS_AT_ONCE + 5))
