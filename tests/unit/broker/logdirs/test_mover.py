"""One move of a real node, disturbed at every step."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator

import pytest

from crabka.broker.logdirs.move_events import MoveState
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, disk_failure, no_space
from tests.support.moves.node import TWO_DIRS, InterruptedNode, alter, fill, log_names, other_dir, place_of, settle
from tests.support.moves.steps import STEPS
from tests.support.nodes.sim_node import SimNode, batch, build, produce_body, row


@pytest.fixture(params=STEPS)
def node(request: pytest.FixtureRequest) -> Iterator[InterruptedNode]:
    with InterruptedNode(request.param) as node:
        # Away from the dir of the metadata, whose loss is the end of the node.
        alter(node, "/d2", "t", 0)
        node.create_topic("t", file_delete_delay_ms="100")
        fill(node, 10)
        yield node


def read_back(node: SimNode, count: int) -> None:
    assert len(node.values("t")) == count


def only_copy(node: SimNode) -> str:
    """Return where the only copy is, and check that nothing else is left of a move."""
    node.advance(2000)
    names = {path: log_names(node, path) for path in TWO_DIRS}
    assert [name for found in names.values() for name in found] == ["t-0"], names
    return next(path for path, found in names.items() if found)


def test_a_crash_at_any_step_leaves_one_copy(node: InterruptedNode) -> None:
    node.interruption.action = node.capture
    node.context.partitions.by_name("t", 0).log.flush()
    alter(node, "/d1", "t", 0)
    settle(node)
    node.crash()
    node.start()
    read_back(node, 10)
    settle(node)
    read_back(node, 10)
    fill(node, 1)
    assert only_copy(node) == place_of(node)


def test_producing_at_any_step_goes_to_the_copy_that_stays(node: InterruptedNode) -> None:
    client = node.connect()
    sent: list[int] = []

    def produce() -> None:
        sent.append(client.post(ApiKey.PRODUCE, 9, produce_body("t", batch(b"y"), partition=0, version=9)))

    node.interruption.action = produce
    alter(node, "/d1", "t", 0)
    settle(node)
    assert len(sent) == 1
    _, answer = node.run(client.response(ApiKey.PRODUCE, 9))
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    read_back(node, 11)
    assert only_copy(node) == place_of(node) == "/d1"
    node.crash()
    node.start()
    assert len(node.values("t")) >= 10


def test_a_cancellation_at_any_step_is_obeyed(node: InterruptedNode) -> None:
    partition = node.context.partitions.by_name("t", 0)
    node.interruption.action = lambda: node.context.moves.move(partition, "/d2")
    alter(node, "/d1", "t", 0)
    settle(node)
    read_back(node, 10)
    assert only_copy(node) == place_of(node) == "/d2"
    topic = node.context.image.topics.by_name["t"]
    assert topic.partitions[0].directory_of(1) == node.context.logs.directory_id("/d2")


def test_a_deletion_at_any_step_takes_everything_along(node: InterruptedNode) -> None:
    client = node.connect()

    def delete() -> None:
        body = build(ApiKey.DELETE_TOPICS, 6, topics=[row("DeleteTopicState", name="t", topic_id=None)], timeout=1000)
        client.post(ApiKey.DELETE_TOPICS, 6, body)

    node.interruption.action = delete
    alter(node, "/d1", "t", 0)
    settle(node)
    node.advance(2000)
    assert [log_names(node, path) for path in TWO_DIRS] == [[], []]


def test_a_source_that_fails_at_any_step_loses_nothing_that_it_had(node: InterruptedNode) -> None:
    node.interruption.action = lambda: node.disk.add(disk_failure("/d2*"))
    node.context.partitions.by_name("t", 0).log.flush()
    alter(node, "/d1", "t", 0)
    settle(node)
    if "t" in {each.topic for each in node.context.partitions}:
        read_back(node, 10)
    node.disk.rules.clear()
    node.restart()
    settle(node)
    read_back(node, 10)
    assert only_copy(node) == place_of(node)


def test_a_full_target_leaves_the_replica_where_it_is() -> None:
    with InterruptedNode() as node:
        node.create_topic("t", file_delete_delay_ms="100")
        fill(node, 5)
        target = other_dir(node)
        rule = node.disk.add(no_space(f"{target}/*-future/*"))
        alter(node, target, "t", 0)
        settle(node)
        assert place_of(node) != target
        assert node.context.logs.offline_dirs == []
        assert (node.context.moves.stats.failed, only_copy(node)) == (1, place_of(node))
        node.disk.remove(rule)
        alter(node, target, "t", 0)
        settle(node)
        assert place_of(node) == target


def test_a_copy_that_cannot_be_opened_is_given_up() -> None:
    with InterruptedNode("move.after_future_synced") as node:
        node.create_topic("t", file_delete_delay_ms="100")
        fill(node, 5)
        before, target = place_of(node), other_dir(node)
        bad = FaultRule(operation="open", path=f"{target}/t-0/*", error=errno.EACCES, times=1)
        node.interruption.action = lambda: node.disk.add(bad)
        alter(node, target, "t", 0)
        settle(node)
        assert (place_of(node), node.context.moves.stats.failed) == (before, 1)
        fill(node, 1)
        read_back(node, 6)
        assert only_copy(node) == before


def test_a_move_goes_on_after_a_clean_stop() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t", segment_bytes="1048576")
        fill(node, 10)
        target = other_dir(node)
        node.context.moves.host.throttle.bytes_per_second = 1
        node.context.moves.host.throttle.pay(100, node.clock.monotonic_ms())
        alter(node, target, "t", 0)
        node.advance(10)
        (progress,) = node.context.moves.progress()
        assert (progress.state, progress.offset_lag, progress.size_bytes) == (MoveState.COPYING, 10, 0)
        node.restart()
        settle(node)
        assert place_of(node) == target
        read_back(node, 10)


def test_a_move_waits_for_its_turn_behind_appends() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t")
        partition = node.context.partitions.by_name("t", 0)
        fill(node, 3)
        before, target = place_of(node), other_dir(node)

        async def hold_the_turn() -> None:
            async with partition.queue.turn():
                node.context.moves.move(partition, target)
                await asyncio.sleep(1)
                assert partition.log.log_dir == before
                (progress,) = node.context.moves.progress()
                assert progress.state is MoveState.HOLDING

        node.run(hold_the_turn())
        settle(node)
        assert place_of(node) == target
        read_back(node, 3)
