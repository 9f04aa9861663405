"""All moves of a node: asking, asking again, asking for something else."""

from __future__ import annotations

import asyncio

import pytest

from crabka.broker.logdirs import mover
from crabka.broker.logdirs.move_events import MoveAction, MoveState
from crabka.broker.logdirs.mover import Mover
from crabka.errors import InvariantError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.moves.node import TWO_DIRS, alter, fill, log_names, other_dir, place_of, settle, throttle
from tests.support.nodes.sim_node import SimNode, row

THREE_DIRS = ("/d1", "/d2", "/d3")


def moving_slowly(node: SimNode, topic: str = "t") -> str:
    """Begin a move that takes a while; return its target."""
    node.create_topic(topic, segment_bytes="1048576", file_delete_delay_ms="100")
    fill(node, 20, topic, value=b"x" * 20_000)
    throttle(node, 100_000)
    target = other_dir(node, topic)
    assert alter(node, target, topic, 0) == {0: ErrorCode.none}
    node.advance(500)
    return target


def test_the_dir_that_a_replica_is_in_is_no_move() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t")
        assert alter(node, place_of(node), "t", 0) == {0: ErrorCode.none}
        assert len(node.context.moves) == 0


def test_progress_reports_how_far_a_move_is_and_how_fast() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        target = moving_slowly(node)
        node.advance(1500)
        (progress,) = node.context.moves.progress()
        assert (progress.topic, progress.partition, progress.target_dir) == ("t", 0, target)
        assert progress.source_dir == place_of(node)
        assert progress.state is MoveState.COPYING
        assert 0 < progress.size_bytes < progress.total_bytes
        assert 0 < progress.offset_lag < 20
        assert progress.bytes_per_second == pytest.approx(100_000, rel=0.3)
        settle(node, 10_000)
        assert place_of(node) == target
        stats = node.context.moves.stats
        assert (stats.moved, stats.failed, stats.cancelled) == (1, 0, 0)
        assert stats.bytes_written >= node.context.partitions.by_name("t", 0).log.size_bytes


def test_the_rate_is_kept_over_all_moves_and_follows_the_setting() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        moving_slowly(node, "t")
        moving_slowly(node, "u")
        node.advance(3000)
        copied = sum(each.size_bytes for each in node.context.moves.progress())
        assert copied == pytest.approx(100_000 * 3.5, rel=0.25)
        throttle(node, None)
        settle(node)
        assert node.context.moves.stats.moved == 2


def test_the_same_target_again_changes_nothing() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        target = moving_slowly(node)
        (before,) = log_names(node, target)
        assert alter(node, target, "t", 0) == {0: ErrorCode.none}
        node.advance(200)
        assert log_names(node, target) == [before]
        throttle(node, None)
        settle(node)
        assert (place_of(node), node.context.moves.stats.cancelled) == (target, 0)


def test_another_target_cancels_and_begins_anew() -> None:
    with SimNode(log_dirs=THREE_DIRS) as node:
        first = moving_slowly(node)
        (second,) = set(THREE_DIRS) - {first, place_of(node)}
        alter(node, second, "t", 0)
        node.advance(1500)
        assert log_names(node, first) == []
        throttle(node, None)
        settle(node)
        stats = node.context.moves.stats
        assert (place_of(node), stats.moved, stats.cancelled) == (second, 1, 1)


def test_the_source_cancels() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        target = moving_slowly(node)
        before = place_of(node)
        alter(node, before, "t", 0)
        settle(node)
        assert (place_of(node), log_names(node, target)) == (before, [])
        # And back again.
        alter(node, target, "t", 0)
        throttle(node, None)
        settle(node)
        assert place_of(node) == target


def test_only_so_many_copy_at_a_time() -> None:
    with SimNode({"num.replica.alter.log.dirs.threads": "1"}, log_dirs=TWO_DIRS) as node:
        moving_slowly(node, "t")
        moving_slowly(node, "u")
        sizes = [each.size_bytes for each in node.context.moves.progress()]
        assert sizes[0] > 0
        assert sizes[1] == 0
        throttle(node, None)
        settle(node)
        assert node.context.moves.stats.moved == 2


def test_a_move_in_line_can_be_cancelled() -> None:
    with SimNode({"num.replica.alter.log.dirs.threads": "1"}, log_dirs=TWO_DIRS) as node:
        moving_slowly(node, "t")
        target = moving_slowly(node, "u")
        before = place_of(node, "u")
        # The copy is there already, for the next start to go on with it.
        assert len(log_names(node, target, "u")) == 1
        alter(node, before, "u", 0)
        node.advance(2000)
        assert len(node.context.moves) == 1
        assert log_names(node, target, "u") == []


def test_a_deleted_topic_takes_its_move_along() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        moving_slowly(node)
        topics = [row("DeleteTopicState", name="t", topic_id=None)]
        node.ask(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=1000)
        settle(node)
        assert [log_names(node, path) for path in TWO_DIRS] == [[], []]


def test_a_topic_of_the_same_name_moves_as_soon_as_the_old_one_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete_slowly(each: Mover) -> None:
        await asyncio.sleep(2)
        await each._delete_future()

    monkeypatch.setitem(mover._STEPS, MoveAction.DELETE_FUTURE, delete_slowly)
    with SimNode(log_dirs=TWO_DIRS) as node:
        moving_slowly(node)
        topics = [row("DeleteTopicState", name="t", topic_id=None)]
        moves = node.context.moves
        node.ask(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=1000)
        node.create_topic("t", file_delete_delay_ms="100")
        assert len(moves) == 1, "the old move is still on its way"
        target = other_dir(node)
        assert alter(node, target, "t", 0) == {0: ErrorCode.none}
        throttle(node, None)
        settle(node)
        assert place_of(node) == target
        assert [log_names(node, path) for path in TWO_DIRS if path != target] == [[]]


def test_a_target_that_fails_ends_the_move() -> None:
    with SimNode(log_dirs=THREE_DIRS) as node:
        alter(node, "/d1", "t", 0)
        node.create_topic("t")
        fill(node, 20, value=b"x" * 20_000)
        throttle(node, 100_000)
        alter(node, "/d2", "t", 0)
        node.advance(300)
        node.fail_dir("/d2")
        assert (len(node.context.moves), place_of(node)) == (0, "/d1")
        assert node.context.moves.stats.failed == 1


def test_what_is_notified_of_the_place_of_a_replica() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        moving_slowly(node)
        partition = node.context.partitions.by_name("t", 0)
        assert node.context.moves.place_of(partition) == place_of(node)


def test_futures_of_replicas_that_are_not_here_are_removed() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        name = f"gone-0.{'0' * 32}-future"
        node.memory.makedirs(f"/d2/{name}")
        node.context.moves.resume({TopicPartition("gone", 0): [f"/d2/{name}"]})
        node.advance(2000)
        assert log_names(node, "/d2", "gone") == []


def test_a_broken_invariant_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t")
        broken: list[object] = []
        monkeypatch.setattr(node.context.moves, "_fail", broken.append)

        async def break_off(_self: Mover, _slot: object) -> None:
            raise InvariantError("impossible")

        monkeypatch.setattr(Mover, "run", break_off)
        alter(node, other_dir(node), "t", 0)
        node.advance(10)
        assert len(broken) == 1
        assert len(node.context.moves) == 0


def test_a_move_that_breaks_off_does_not_hurt_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t")

        async def break_off(_self: Mover, _slot: object) -> None:
            raise ZeroDivisionError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Mover, "run", break_off)
            alter(node, other_dir(node), "t", 0)
            node.advance(10)
        assert node.context.moves.stats.failed == 1
        target = other_dir(node)
        alter(node, target, "t", 0)
        settle(node)
        assert place_of(node) == target
