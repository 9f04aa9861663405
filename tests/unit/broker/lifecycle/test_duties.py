"""Periodic duties, in virtual time."""

from __future__ import annotations

import errno

import pytest

from crabka.broker.lifecycle.duties import duties_of, repeat
from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.testing import FaultRule, FaultyFileSystem
from tests.support.nodes.sim_node import SimNode, batch
from tests.support.storage.replicas import give_followers

HOUR_MS = 3_600_000


def segments(node: SimNode, path: str = "/d1/t-0") -> list[str]:
    return [name for name in node.memory.listdir(path) if name.endswith(".log")]


def test_retention_deletes_segments_and_their_files_vanish_later(node: SimNode) -> None:
    node.create_topic("t", retention_ms=str(HOUR_MS), segment_ms="1000", file_delete_delay_ms="60000")
    node.produce("t", batch(b"old", timestamp=node.clock.now_ms()))
    node.advance(2000)
    node.produce("t", batch(b"new", timestamp=node.clock.now_ms()))
    assert len(segments(node)) == 2
    node.advance(HOUR_MS / 2)
    assert node.values("t") == [b"old", b"new"]
    node.produce("t", batch(b"newer", timestamp=node.clock.now_ms()))
    node.advance(HOUR_MS / 2 + 300_000)
    assert node.values("t") == [b"newer"]
    node.advance(70_000)
    assert not [name for name in node.memory.listdir("/d1/t-0") if name.endswith(".deleted")]


def test_retention_by_size(node: SimNode) -> None:
    node.create_topic("t", retention_bytes="3000", internal_segment_bytes="1100")
    for _ in range(10):
        node.produce("t", batch(bytes(1000), timestamp=node.clock.now_ms()))
    node.advance(300_001)
    assert 2 <= len(node.values("t")) <= 4


def test_offsets_are_checkpointed(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a", b"b"))
    node.advance(61_000)
    assert read_offset_checkpoint(node.memory, "/d1/replication-offset-checkpoint") == {TopicPartition("t", 0): 2}


def test_flush_ms_makes_records_durable(node: SimNode) -> None:
    node.create_topic("t", flush_ms="1000")
    node.produce("t", batch(b"a"))
    node.advance(61_000)
    node.crash()
    node.start()
    assert node.values("t") == [b"a"]


def test_a_checkpoint_that_cannot_be_written_takes_the_dir_offline() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        faulty = FaultyFileSystem(node.memory)
        node.fs = faulty
        node.restart()
        faulty.add(FaultRule(operation="fsync", path="/d2/*checkpoint*", error=errno.ENOSPC))
        node.advance(61_000)
        assert node.context.logs.offline_dirs == ["/d2"]
        assert not node.node.failed.done()  # type: ignore[union-attr] # it runs


def test_a_duty_that_fails_runs_again(node: SimNode, caplog: pytest.LogCaptureFixture) -> None:
    runs: list[float] = []

    async def fail(_context: object) -> None:
        runs.append(node.loop.time())
        raise ZeroDivisionError

    async def main() -> None:
        import asyncio

        started = node.loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(repeat(node.context, ("test", 1000, fail)), 3.5)
        assert [round(at - started) for at in runs] == [1, 2, 3]

    node.run(main())
    assert "The duty 'test' failed" in caplog.text


def test_every_duty_has_an_interval(node: SimNode) -> None:
    intervals = [each if isinstance(each, int) else each(node.context) for _, each, _ in duties_of(node.context)]
    assert all(interval_ms > 0 for interval_ms in intervals)


def keyed(key: bytes, value: bytes | None, timestamp: int) -> bytes:
    return build_batch([Record(0, timestamp, key, value)])


def test_a_compacted_topic_is_cleaned(node: SimNode) -> None:
    node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="200", min_cleanable_dirty_ratio="0.1")
    for number in range(8):
        node.produce("t", keyed(b"k", b"%d" % number, node.clock.now_ms()))
    assert node.values("t") == [b"%d" % number for number in range(8)]
    node.advance(16_000)
    # The active segment is never cleaned.
    assert node.values("t") == [b"5", b"6", b"7"]
    assert read_offset_checkpoint(node.memory, "/d1/cleaner-offset-checkpoint") == {TopicPartition("t", 0): 6}
    assert node.context.cleaner.stats.cleanings == 1
    node.restart()
    assert node.values("t") == [b"5", b"6", b"7"]
    node.crash()
    node.start()
    assert node.values("t") == [b"5", b"6", b"7"]


def test_nothing_is_cleaned_while_the_cleaner_is_off() -> None:
    with SimNode({"log.cleaner.enable": "false"}) as node:
        node.create_topic("t", cleanup_policy="compact", internal_segment_bytes="200", min_cleanable_dirty_ratio="0")
        for number in range(8):
            node.produce("t", keyed(b"k", b"%d" % number, node.clock.now_ms()))
        node.advance(60_000)
        assert len(node.values("t")) == 8


def test_compact_and_delete_work_together(node: SimNode) -> None:
    node.create_topic(
        "t",
        cleanup_policy="compact,delete",
        internal_segment_bytes="200",
        min_cleanable_dirty_ratio="0",
        retention_ms=str(HOUR_MS),
    )
    for number in range(8):
        node.produce("t", keyed(b"k%d" % (number % 3), b"%d" % number, node.clock.now_ms()))
    node.advance(16_000)
    assert node.values("t") == [b"3", b"4", b"5", b"6", b"7"]
    node.advance(HOUR_MS + 300_000)
    assert len(node.values("t")) < 3


def test_followers_that_lag_are_proposed_to_leave_the_isr() -> None:
    with SimNode({"replica.lag.time.max.ms": "1000", "replica.fetch.wait.max.ms": "500"}) as node:
        node.create_topic("t")
        world = give_followers(node, "t")
        node.advance(600)
        assert world.proposals == []
        world.now_ms = 1001
        node.advance(600)
        assert [proposal.isr for proposal in world.proposals] == [(1,)]
