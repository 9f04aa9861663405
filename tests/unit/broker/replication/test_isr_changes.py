"""Proposals on their way to the controller: batches, retries, answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import pytest

from crabka.broker.replication.isr_changes import RETRY_BACKOFF_MS, IsrChanges
from crabka.errors import InvariantError, OperationError
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import request_types, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with
from tests.support.storage.replicas import LedPartition, replicated_image

OTHER_TOPIC = uuid.UUID(int=78)
Answer = Callable[[Any], Any]


class Identity(NamedTuple):
    """Who asks."""

    node_id: int = 1
    broker_epoch: int = 42


class ScriptedController:
    """Answers one request after the other, the last way again and again; remembers what was asked and when."""

    def __init__(self, *answers: Answer, version: int = 3) -> None:
        self.answers = list(answers)
        self.version = version
        self.requests: list[Any] = []
        self.times_ms: list[float] = []

    async def request(self, api_key: ApiKey, build: Callable[[Any], Any]) -> Any:
        assert api_key is ApiKey.ALTER_PARTITION
        body = build(request_types(int(api_key), self.version))
        self.requests.append(body)
        self.times_ms.append(asyncio.get_running_loop().time() * 1000)
        # Other proposals may come while one is on its way.
        await asyncio.sleep(0.001)
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(body)


def answered(error_code: ErrorCode = ErrorCode.none, *, top: ErrorCode = ErrorCode.none, version: int = 3) -> Answer:
    """Answer every partition alike: with its wish, or an error."""
    types = response_types(int(ApiKey.ALTER_PARTITION), version)

    def isr_of(row: Any) -> list[int]:
        return [member.broker_id for member in row.new_isr_with_epochs] if version >= 3 else list(row.new_isr)

    def answer(body: Any) -> Any:
        topics = [
            types.new(
                "TopicData",
                topic_id=topic.topic_id,
                partitions=[
                    types.new(
                        "PartitionData",
                        partition_index=row.partition_index,
                        error_code=error_code,
                        leader_id=1,
                        leader_epoch=row.leader_epoch,
                        isr=isr_of(row),
                        leader_recovery_state=0,
                        partition_epoch=row.partition_epoch + 1,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in body.topics
        ]
        is_refused = top is not ErrorCode.none
        return types.message(throttle_time=0, error_code=top, topics=[] if is_refused else topics)

    return answer


def unreachable(_body: Any) -> Any:
    raise OperationError(ErrorCode.request_timed_out)


def broken(_body: Any) -> Any:
    raise ValueError("a bug elsewhere")


def without_rows(_body: Any) -> Any:
    types = response_types(int(ApiKey.ALTER_PARTITION), 3)
    return types.message(throttle_time=0, error_code=ErrorCode.none, topics=[])


def connected(led: LedPartition, controller: ScriptedController) -> IsrChanges:
    """Let the proposals of a partition go to a controller."""
    changes = IsrChanges(controller, Identity(), spawn=asyncio.ensure_future)
    led.world.host.propose = changes.propose
    return changes


def lagging(led: LedPartition) -> None:
    """Let replica 3 lag for too long, so that the leader proposes to go on without it."""
    led.append(3)
    led.world.now_ms += 1001
    led.fetch(2, led.partition.log.log_end_offset)
    led.partition.followers.shrink_isr()


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    VirtualTimeLoop().run(test())


@pytest.mark.parametrize("version", [2, 3])
@run_with(in_loop)
async def test_a_proposal_is_sent_and_its_answer_counts(version: int) -> None:
    led = LedPartition()
    controller = ScriptedController(answered(version=version), version=version)
    connected(led, controller)
    led.fetch(2, 0)
    lagging(led)
    await asyncio.sleep(1)
    (body,) = controller.requests
    assert (body.broker_id, body.broker_epoch) == (1, 42)
    (row,) = body.topics[0].partitions
    assert (row.partition_index, row.leader_epoch, row.partition_epoch) == (0, 5, 10)
    if version == 3:
        members = [(member.broker_id, member.broker_epoch) for member in row.new_isr_with_epochs]
        assert members == [(1, 1), (2, 2)]
    else:
        assert row.new_isr == (1, 2)
    assert (led.partition.in_sync_count, led.high_watermark) == (2, 3)


@run_with(in_loop)
async def test_proposals_that_come_meanwhile_go_together() -> None:
    partitions = [LedPartition() for _ in range(3)]
    controller = ScriptedController(answered())
    changes = connected(partitions[0], controller)
    for index, led in enumerate(partitions):
        led.partition.index = index
        led.world.host.propose = changes.propose
    partitions[2].partition.topic_id = OTHER_TOPIC
    for led in partitions:
        lagging(led)
        await asyncio.sleep(0)
    await asyncio.sleep(1)
    sizes = [[len(topic.partitions) for topic in body.topics] for body in controller.requests]
    assert sizes == [[1], [1, 1]]
    assert [led.partition.in_sync_count for led in partitions] == [2, 2, 2]


@pytest.mark.parametrize(
    "first",
    [
        unreachable,
        broken,
        answered(top=ErrorCode.stale_broker_epoch),
        answered(ErrorCode.unknown_server_error),
        without_rows,
    ],
    ids=["unreachable", "broken", "stale epoch", "unexpected error", "no row"],
)
@run_with(in_loop)
async def test_a_proposal_is_sent_again_until_it_is_answered(first: Answer) -> None:
    led = LedPartition()
    controller = ScriptedController(first, first, answered())
    connected(led, controller)
    lagging(led)
    await asyncio.sleep(1)
    assert len(controller.requests) == 3
    assert controller.requests[0] == controller.requests[2]
    gaps = [later - earlier for earlier, later in zip(controller.times_ms, controller.times_ms[1:], strict=False)]
    assert all(gap >= RETRY_BACKOFF_MS for gap in gaps)
    assert led.partition.in_sync_count == 2


@run_with(in_loop)
async def test_a_refused_proposal_is_not_sent_again() -> None:
    led = LedPartition()
    controller = ScriptedController(answered(ErrorCode.ineligible_replica))
    connected(led, controller)
    lagging(led)
    await asyncio.sleep(1)
    assert len(controller.requests) == 1
    assert led.partition.in_sync_count == 3
    # But another may be made.
    led.partition.followers.shrink_isr()
    await asyncio.sleep(1)
    assert len(controller.requests) == 2


@run_with(in_loop)
async def test_after_an_answer_that_needs_metadata_nothing_is_sent() -> None:
    led = LedPartition()
    controller = ScriptedController(answered(ErrorCode.fenced_leader_epoch))
    connected(led, controller)
    lagging(led)
    await asyncio.sleep(1)
    led.partition.followers.shrink_isr()
    await asyncio.sleep(1)
    assert len(controller.requests) == 1


@run_with(in_loop)
async def test_a_proposal_whose_partition_moved_on_is_dropped() -> None:
    led = LedPartition()
    controller = ScriptedController(unreachable)
    connected(led, controller)
    lagging(led)
    await asyncio.sleep(0.1)
    led.become(replicated_image(leader_epoch=6, partition_epoch=11))
    await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
    sent = len(controller.requests)
    await asyncio.sleep(10)
    assert len(controller.requests) == sent


@run_with(in_loop)
async def test_a_request_that_is_built_late_leaves_out_what_is_not_led_any_more() -> None:
    led = LedPartition()
    bodies: list[Any] = []

    class SlowController(ScriptedController):
        async def request(self, api_key: ApiKey, build: Callable[[Any], Any]) -> Any:
            # There is no active controller for a while; meanwhile the log dir of the partition fails.
            await asyncio.sleep(1)
            led.partition.retire(ErrorCode.kafka_storage_error)
            bodies.append(build(request_types(int(api_key), self.version)))
            return self.answers[0](bodies[-1])

    connected(led, SlowController(answered()))
    lagging(led)
    await asyncio.sleep(5)
    (body,) = bodies
    assert not body.topics


@run_with(in_loop)
async def test_a_late_answer_does_not_touch_what_came_after() -> None:
    led = LedPartition()
    controller = ScriptedController(answered())
    connected(led, controller)
    lagging(led)
    await asyncio.sleep(0)
    led.become(replicated_image(leader_epoch=6, partition_epoch=11))
    await asyncio.sleep(1)
    assert led.partition.in_sync_count == 3
    lagging(led)
    await asyncio.sleep(1)
    assert (len(controller.requests), led.partition.in_sync_count) == (2, 2)


@run_with(in_loop)
async def test_a_broken_invariant_ends_the_sending() -> None:
    def contradict(_body: Any) -> Any:
        raise InvariantError("this cannot be")

    led = LedPartition()
    controller = ScriptedController(contradict, answered())
    tasks: list[asyncio.Future[Any]] = []

    def spawn(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        tasks.append(asyncio.ensure_future(coroutine))
        return tasks[-1]

    led.world.host.propose = IsrChanges(controller, Identity(), spawn=spawn).propose
    lagging(led)
    await asyncio.sleep(1)
    assert isinstance(tasks[0].exception(), InvariantError)
    assert len(controller.requests) == 1
