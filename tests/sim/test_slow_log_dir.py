"""A whole node with two log dirs of which one is slow: only those who write to that one wait."""

from __future__ import annotations

import errno
import logging
from typing import Any, NamedTuple

import pytest

from crabka.broker.partition.partition import Partition
from crabka.log.dirs import dir_writer
from crabka.log.partition.append import PendingAppend
from crabka.ports import Runtime
from crabka.protocol.apis import ApiKey, request_types
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem, InlineThreads
from tests.support.nodes.sim_node import SimNode, WireClient, batch, build, produce_body, row

SLOW_DIR = "/d2"
LIMIT_MS = 500
PRODUCE_VERSION = 9


class DiskThreads(InlineThreads):
    """Threads in which the write of a batch takes some time. Shows whether a job runs."""

    write_ms = 0.0
    runs_job = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        def job() -> Any:
            self.runs_job = True
            try:
                return fn(*args, **kwargs)
            finally:
                self.runs_job = False

        if not (self.write_ms and isinstance(getattr(fn, "__self__", None), PendingAppend)):
            return super().submit(job)
        future = self._loop.create_future()

        def write() -> None:
            if not self._killed:
                try:
                    future.set_result(job())
                except OSError as error:
                    future.set_exception(error)

        self._loop.call_later(self.write_ms / 1000, write)
        return future


class SlowNode(SimNode):
    """A node with a topic `t` whose two partitions lie in two dirs."""

    def __init__(self, **settings: str) -> None:
        super().__init__({key.replace("_", "."): value for key, value in settings.items()}, log_dirs=("/d1", SLOW_DIR))
        self.disk = FaultyFileSystem(self.memory)
        self.fs = self.disk

    def _new_runtime(self) -> Runtime:
        runtime = super()._new_runtime()
        self.threads = DiskThreads(self.loop)
        return Runtime(runtime.clock, runtime.rng, self.threads, runtime.fs, runtime.network)

    def partition_in(self, log_dir: str, topic: str = "t") -> Partition:
        return next(p for p in self.context.partitions if p.topic == topic and p.log.log_dir == log_dir)

    @property
    def slow(self) -> Partition:
        return self.partition_in(SLOW_DIR)

    @property
    def fast(self) -> Partition:
        return self.partition_in("/d1")

    def slow_down(self, write_ms: float = 1000) -> None:
        """Make the dir slow; from then on each write in a thread takes its time."""
        self.stall()
        assert self.slow.writer.is_slow
        self.threads.write_ms = write_ms

    def stall(self) -> None:
        """Let one append stall the loop."""
        stall = self.disk.add(self.stalled())
        assert self.produce("t", batch(b"stall"), partition=self.slow.index).error_code == 0
        self.disk.remove(stall)

    def stalled(self) -> FaultRule:
        """Return what lets one append to the slow dir stall the loop."""
        return FaultRule(
            operation="pwritev",
            path=f"{SLOW_DIR}/*.log",
            times=1,
            before=lambda _operation, _path: self.loop.advance((LIMIT_MS + 1) / 1000),
        )

    def post(self, client: WireClient, partition: Partition, records: bytes) -> None:
        """Produce without waiting for the answer."""
        body = produce_body(partition.topic, records, partition=partition.index, version=PRODUCE_VERSION)
        client.post(ApiKey.PRODUCE, PRODUCE_VERSION, body)

    def answer(self, client: WireClient) -> Answer:
        """Wait for the next answer of a produce."""
        _, body = self.run(client.response(ApiKey.PRODUCE, PRODUCE_VERSION))
        found = body.responses[0].partition_responses[0]
        return Answer(ErrorCode(int(found.error_code)), found.base_offset)

    def delete_topic(self, name: str) -> int:
        topics = [row("DeleteTopicState", name=name, topic_id=None)]
        body = build(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=1000)
        return int(self.ask(ApiKey.DELETE_TOPICS, 6, body).responses[0].error_code)


class Answer(NamedTuple):
    code: ErrorCode
    base_offset: int


def sequenced(sequence: int) -> bytes:
    return batch(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)


@pytest.fixture
def node() -> Any:
    with SlowNode() as started:
        started.create_topic("t", 2)
        yield started


def test_a_slow_dir_does_not_slow_the_others(node: SlowNode) -> None:
    node.slow_down(write_ms=1000)
    waiting, other = node.connect(), node.connect()
    began_ms = node.clock.monotonic_ms()
    node.post(waiting, node.slow, batch(b"slow"))
    for offset in range(3):
        node.post(other, node.fast, batch(b"fast"))
        assert node.answer(other) == (ErrorCode.none, offset)
    assert node.clock.monotonic_ms() - began_ms < 100
    assert node.slow.log.log_end_offset == 1
    assert node.answer(waiting) == (ErrorCode.none, 1)
    assert node.clock.monotonic_ms() - began_ms >= 1000


def test_readers_see_a_batch_when_it_is_written_and_not_before(node: SlowNode) -> None:
    node.slow_down()
    waiting = node.connect()
    node.post(waiting, node.slow, batch(b"a"))
    node.advance(500)
    assert node.values("t", node.slow.index) == [b"stall"]
    assert node.fetch("t", 2, partition=node.slow.index).error_code == ErrorCode.offset_out_of_range
    assert node.answer(waiting).code == ErrorCode.none
    assert node.values("t", node.slow.index) == [b"stall", b"a"]


def test_order_and_idempotence_are_kept(node: SlowNode) -> None:
    node.slow_down()
    client = node.connect()
    for sequence in (0, 1, 2, 1, 4, 3):
        node.post(client, node.slow, sequenced(sequence))
    assert [node.answer(client) for _ in range(6)] == [
        (ErrorCode.none, 1),
        (ErrorCode.none, 2),
        (ErrorCode.none, 3),
        (ErrorCode.none, 2),
        (ErrorCode.out_of_order_sequence_number, -1),
        (ErrorCode.none, 4),
    ]
    assert node.values("t", node.slow.index) == [b"stall", b"0", b"1", b"2", b"3"]


def test_a_slow_append_is_not_counted_for_the_rows_after_it(node: SlowNode) -> None:
    types = request_types(ApiKey.PRODUCE, PRODUCE_VERSION)
    rows = [types.new("PartitionProduceData", index=each.index, records=batch(b"a")) for each in (node.slow, node.fast)]
    topics = [types.new("TopicProduceData", name="t", topic_id=None, partition_data=rows)]
    stall = node.disk.add(node.stalled())
    client = node.connect()
    client.post(
        ApiKey.PRODUCE, PRODUCE_VERSION, types.message(transactional_id=None, acks=1, timeout=1000, topic_data=topics)
    )
    assert node.answer(client).code is ErrorCode.none
    node.disk.remove(stall)
    assert (node.slow.writer.is_slow, node.fast.writer.is_slow) == (True, False)


def test_a_dir_that_is_fast_again_is_written_on_the_loop(node: SlowNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "crabka.log.dirs.dir_writer")
    node.slow_down()
    index, slow = node.slow.index, node.slow
    for write_ms in [LIMIT_MS / 10 - 2] * 15 + [LIMIT_MS] + [LIMIT_MS / 10 - 2] * 15:
        node.threads.write_ms = write_ms
        node.produce("t", batch(b"a"), partition=index)
        assert slow.writer.is_slow
    node.produce("t", batch(b"a"), partition=index)
    assert not slow.writer.is_slow
    node.threads.write_ms = 10_000
    began_ms = node.clock.monotonic_ms()
    assert node.produce("t", batch(b"a"), partition=index).error_code == ErrorCode.none
    assert node.clock.monotonic_ms() - began_ms < 100
    assert [record.getMessage() for record in caplog.records] == [
        f"log dir {SLOW_DIR} is slow: an append took 501 ms; a thread writes to it until it recovers",
        f"log dir {SLOW_DIR} is fast again",
    ]


def test_a_topic_is_deleted_and_made_again_during_a_write(node: SlowNode) -> None:
    node.slow_down()
    client = node.connect()
    deleted = node.slow
    node.post(client, deleted, batch(b"a"))
    node.post(client, deleted, batch(b"b"))
    node.advance(500)
    assert node.delete_topic("t") == 0
    node.create_topic("t", 2)
    assert [node.answer(client).code for _ in range(2)] == [ErrorCode.not_leader_or_follower] * 2
    assert deleted.log.log_end_offset == 1
    assert node.context.logs.offline_dirs == []
    node.threads.write_ms = 0
    assert node.produce("t", batch(b"new"), partition=node.slow.index).base_offset == 0
    node.restart()
    assert node.values("t", node.slow.index) == [b"new"]


def test_a_stop_during_a_write_is_clean(node: SlowNode) -> None:
    node.slow_down(write_ms=60_000)
    client = node.connect()
    node.post(client, node.slow, batch(b"a"))
    node.post(client, node.slow, batch(b"b"))
    node.advance(500)
    node.stop()
    node.start()
    assert node.context.logs.previous_broker_epoch >= 0
    # The first was on its way; the second waited for its turn and was given up.
    assert node.values("t", node.slow.index) == [b"stall", b"a"]
    assert node.produce("t", batch(b"c"), partition=node.slow.index).base_offset == 2


def test_power_loss_during_a_write_loses_no_more_than_that(node: SlowNode) -> None:
    node.slow_down()
    node.slow.log.flush()
    node.post(node.connect(), node.slow, batch(b"a"))
    node.advance(500)
    node.crash()
    node.start()
    assert node.values("t", node.slow.index) == [b"stall"]


def test_a_write_that_fails_in_the_thread_takes_the_dir_offline(node: SlowNode) -> None:
    node.slow_down()
    client = node.connect()
    node.disk.add(FaultRule(operation="pwritev", path=f"{SLOW_DIR}/*", error=errno.EIO))
    for _ in range(3):
        node.post(client, node.slow, batch(b"a"))
    assert [node.answer(client) for _ in range(3)] == [(ErrorCode.kafka_storage_error, -1)] * 3
    assert node.context.logs.offline_dirs == [SLOW_DIR]
    assert node.produce("t", batch(b"a"), partition=node.fast.index).error_code == ErrorCode.none


def test_a_dir_that_fails_otherwise_during_a_write_refuses_it(node: SlowNode) -> None:
    node.slow_down()
    client = node.connect()
    node.post(client, node.slow, batch(b"a"))
    node.advance(500)
    node.fail_dir(SLOW_DIR)
    assert node.answer(client).code == ErrorCode.kafka_storage_error


def test_what_waits_for_a_slow_dir_is_bounded(node: SlowNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dir_writer, "MAX_HELD_BYTES", 2500)
    node.slow_down()
    client = node.connect()
    for _ in range(4):
        node.post(client, node.slow, batch(bytes(1000)))
    assert [node.answer(client).code for _ in range(4)] == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.request_timed_out,
        ErrorCode.request_timed_out,
    ]
    assert node.slow.writer.held_bytes == 0
    assert node.produce("t", batch(bytes(1000)), partition=node.slow.index).error_code == ErrorCode.none


def test_retention_and_rolls_leave_a_segment_alone_that_is_written(node: SlowNode) -> None:
    node.slow_down(write_ms=3_600_000)
    node.set_configs(2, "t", retention_ms="1000", segment_ms="1000")
    client, log = node.connect(), node.slow.log
    node.post(client, node.slow, batch(b"a"))
    node.advance(1_800_000)
    assert log.segment_base_offsets == [0]
    assert node.answer(client) == (ErrorCode.none, 1)
    node.advance(1_800_000)
    assert log.segment_base_offsets == [2]


def test_flushes_by_count_wait_in_a_thread() -> None:
    with SlowNode() as node:
        node.create_topic("t", 2, flush_messages="2")
        on_loop: list[str] = []
        node.disk.add(
            FaultRule(
                operation="fsync",
                path="*/t-*/*",
                before=lambda _operation, path: None if node.threads.runs_job else on_loop.append(path),
            )
        )
        for value in (b"a", b"b", b"c"):
            assert node.produce("t", batch(value)).error_code == ErrorCode.none
        assert on_loop == []
        assert node.context.partitions.by_name("t", 0).log.recovery_point == 2
        node.crash()
        node.start()
        assert node.values("t") == [b"a", b"b"]


def test_a_flush_by_count_that_fails_takes_the_dir_offline() -> None:
    with SlowNode() as node:
        node.create_topic("t", 2, flush_messages="1")
        node.disk.add(FaultRule(operation="fsync", path=f"{SLOW_DIR}/*", error=errno.EIO))
        assert node.produce("t", batch(b"a"), partition=node.slow.index).error_code == ErrorCode.kafka_storage_error
        assert node.context.logs.offline_dirs == [SLOW_DIR]


def test_the_limit_is_a_setting() -> None:
    with SlowNode(crabka_slow_append_ms="10000") as node:
        node.create_topic("t", 2)
        node.stall()
        assert not node.slow.writer.is_slow
