"""Appends of the node itself, with acks=all."""

from __future__ import annotations

import asyncio
import errno
import functools

import pytest

from crabka.broker.partition.append_queue import AppendQueue
from crabka.log.producers.verification import ANY_TERMS, AppendTerms
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem
from tests.support.coordinators.txn_partitions import transactional_batch
from tests.support.moves.partitions import NO_LEADER, HeldWatermark, lead
from tests.support.nodes.sim_node import SimNode, batch
from tests.support.storage.replicas import give_followers, replicated_image


def append(node: SimNode, records: bytes, terms: AppendTerms = ANY_TERMS, topic: str = "t") -> list[ErrorCode]:
    reported: list[ErrorCode] = []

    async def run() -> None:
        partition = node.context.partitions.by_name(topic, 0)
        node.context.appender.append(partition, records, terms, reported.append, timeout_ms=1000)

    node.run(run())
    node.advance(2000)
    return reported


def test_what_is_appended_is_reported_at_once(node: SimNode) -> None:
    node.create_topic("t")
    assert append(node, batch(b"v")) == [ErrorCode.none]
    assert node.values("t") == [b"v"]


def test_the_batch_of_a_transaction_needs_its_guard(node: SimNode) -> None:
    node.create_topic("t")
    assert append(node, transactional_batch(b"v"), AppendTerms(guard=None)) == [ErrorCode.invalid_txn_state]
    state = node.context.partitions.by_name("t", 0).log.producer_state
    guard = state.begin_verification(7, 0, sequence=-1, now_ms=0, supports_epoch_bump=True)
    assert append(node, transactional_batch(b"v"), AppendTerms(guard)) == [ErrorCode.none]


def test_a_batch_that_the_topic_cannot_take_is_refused(node: SimNode) -> None:
    node.create_topic("t", max_message_bytes="100")
    assert append(node, batch(bytes(500))) == [ErrorCode.message_too_large]


def test_too_few_replicas_are_reported(node: SimNode) -> None:
    node.create_topic("t")
    node.context.partitions.by_name("t", 0).in_sync_count = 0
    assert append(node, batch(b"v")) == [ErrorCode.not_enough_replicas]


def test_a_lagging_high_watermark_is_waited_for(node: SimNode) -> None:
    node.create_topic("t")
    give_followers(node, "t")
    assert append(node, batch(b"v")) == [ErrorCode.request_timed_out]


def test_what_the_replicas_have_is_reported_in_the_order_of_the_log(node: SimNode) -> None:
    node.create_topic("t")
    world = give_followers(node, "t")
    partition = node.context.partitions.by_name("t", 0)
    reported: list[str] = []

    async def run() -> None:
        def add(name: str) -> None:
            done = functools.partial(note, name)
            node.context.appender.append(partition, batch(b"v"), ANY_TERMS, done, timeout_ms=1000)

        def note(name: str, error_code: ErrorCode) -> None:
            assert error_code is ErrorCode.none
            reported.append(name)

        add("first")
        # There is no replica left to wait for: the second one is replicated as soon as it is written.
        world.now_ms = 1001
        image = replicated_image(1, leader_epoch=partition.leader_epoch, partition_epoch=11)
        partition.become(image, node_id=1, now_ms=1001)
        add("second")
        assert reported == []
        await asyncio.sleep(0)

    node.run(run())
    assert reported == ["first", "second"]


def test_a_leader_that_is_left_alone_keeps_the_order_of_the_log(node: SimNode) -> None:
    node.create_topic("t")
    give_followers(node, "t")
    partition = node.context.partitions.by_name("t", 0)
    reported: list[tuple[str, ErrorCode]] = []

    async def run() -> None:
        def add(name: str) -> None:
            def done(error_code: ErrorCode) -> None:
                reported.append((name, error_code))

            node.context.appender.append(partition, batch(b"v"), ANY_TERMS, done, timeout_ms=1000)

        add("first")
        # The others are taken away, and the epoch rises with that.
        image = replicated_image(replicas=(1,), leader_epoch=partition.leader_epoch + 1, partition_epoch=11)
        partition.become(image, node_id=1)
        add("second")
        await asyncio.sleep(0)
        add("third")

    node.run(run())
    assert reported == [(name, ErrorCode.none) for name in ("first", "second", "third")]
    assert partition.queue.pending_outcomes == 0


def test_an_epoch_of_another_leader_in_between_is_reported(node: SimNode) -> None:
    node.create_topic("t")
    give_followers(node, "t")

    def lose_and_win() -> None:
        give_followers(node, "t", leader=2)
        give_followers(node, "t", 1)

    node.loop.call_later(0.1, lose_and_win)
    assert append(node, batch(b"v")) == [ErrorCode.not_leader_or_follower]


def test_leadership_that_is_lost_meanwhile_is_reported(node: SimNode) -> None:
    node.create_topic("t")
    give_followers(node, "t")
    node.loop.call_later(0.1, lambda: give_followers(node, "t", leader=2))
    assert append(node, batch(b"v")) == [ErrorCode.not_leader_or_follower]


def test_a_thread_may_have_to_write_it(node: SimNode) -> None:
    node.create_topic("t")
    writer = node.context.partitions.by_name("t", 0).writer
    writer.note_append(writer.slow_append_ms * 100)
    assert append(node, batch(b"v")) == [ErrorCode.none]
    node.context.partitions.by_name("t", 0).retire()
    assert append(node, batch(b"v")) == [ErrorCode.not_leader_or_follower]


def test_an_unexpected_failure_in_a_thread_is_reported(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create_topic("t")
    writer = node.context.partitions.by_name("t", 0).writer
    writer.note_append(writer.slow_append_ms * 100)

    async def fail(*_arguments: object, **_options: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(AppendQueue, "_append_in_steps", fail)
    assert append(node, batch(b"v")) == [ErrorCode.unknown_server_error]


def test_a_failed_disk_is_reported() -> None:
    node = SimNode(log_dirs=("/d1", "/d2"))
    faulty = FaultyFileSystem(node.memory)
    node.fs = faulty
    with node:
        names = [f"t{index}" for index in range(4)]
        for name in names:
            node.create_topic(name)
        topic = next(name for name in names if node.context.partitions.by_name(name, 0).log.log_dir == "/d2")
        faulty.add(FaultRule(operation="pwritev", path="/d2/*", error=errno.EIO))
        assert append(node, batch(b"v"), topic=topic) == [ErrorCode.kafka_storage_error]


def test_who_waits_is_notified_when_the_leadership_goes(node: SimNode) -> None:
    node.create_topic("t")
    held = HeldWatermark(node, node.context.partitions.by_name("t", 0))
    reported: list[ErrorCode] = []

    async def run() -> None:
        node.context.appender.append(held.partition, batch(b"v"), ANY_TERMS, reported.append, timeout_ms=1000)

    node.run(run())
    assert reported == []
    lead(node, held.partition, NO_LEADER)
    node.advance(5)
    assert reported == [ErrorCode.not_leader_or_follower]
