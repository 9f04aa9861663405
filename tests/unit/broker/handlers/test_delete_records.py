"""DeleteRecords over the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultyFileSystem, disk_failure
from tests.support.nodes.sim_node import SimNode, batch, build, row, versions_of
from tests.support.storage.replicas import give_followers


def trim(
    node: SimNode, offset: int, *, topic: str = "t", partition: int = 0, version: int = 2
) -> tuple[ErrorCode, int]:
    wanted = row("DeleteRecordsPartition", partition_index=partition, offset=offset)
    rows = [row("DeleteRecordsTopic", name=topic, partitions=[wanted])]
    answer = node.ask(ApiKey.DELETE_RECORDS, version, topics=rows, timeout=1000).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_RECORDS))
def test_every_version_trims(node: SimNode, version: int) -> None:
    node.create_topic("t")
    for value in (b"a", b"b", b"c"):
        node.produce("t", batch(value))
    assert trim(node, 2, version=version) == (ErrorCode.none, 2)
    assert node.values("t") == [b"c"]
    assert node.fetch("t", 0).error_code is ErrorCode.offset_out_of_range


def test_minus_one_is_the_high_watermark(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a", b"b"))
    assert trim(node, -1) == (ErrorCode.none, 2)


@pytest.mark.parametrize(
    ("offset", "topic", "partition", "code"),
    [
        (2, "t", 0, ErrorCode.offset_out_of_range),
        (-2, "t", 0, ErrorCode.offset_out_of_range),
        (0, "t", 7, ErrorCode.unknown_topic_or_partition),
        (0, "nope", 0, ErrorCode.unknown_topic_or_partition),
        (0, "compacted", 0, ErrorCode.policy_violation),
        (0, "__consumer_offsets", 0, ErrorCode.invalid_topic_exception),
    ],
)
def test_what_cannot_be_trimmed(node: SimNode, offset: int, topic: str, partition: int, code: ErrorCode) -> None:
    node.create_topic("t")
    node.create_topic("compacted", cleanup_policy="compact")
    node.produce("t", batch(b"a"))
    assert trim(node, offset, topic=topic, partition=partition) == (code, -1)


def test_trimmed_records_do_not_come_back_after_a_crash(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    node.produce("t", batch(b"b"))
    node.context.partitions.by_name("t", 0).log.flush()  # the records are durable, the trimming must be as well
    trim(node, 1)
    node.crash()
    node.start()
    assert node.values("t") == [b"b"]


def test_a_disk_that_fails_is_reported() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        faulty = FaultyFileSystem(node.memory)
        node.fs = faulty
        node.restart()
        node.create_topic("t", 2)
        for index in (0, 1):
            node.produce("t", batch(b"a"), partition=index)
        partition = next(p for p in node.context.partitions if p.log.log_dir == "/d2")
        faulty.add(disk_failure("/d2/*"))
        # The new start cannot be made durable: the dir is lost, and the client must not get a success.
        assert trim(node, 1, partition=partition.index) == (ErrorCode.kafka_storage_error, -1)
        assert node.context.logs.offline_dirs == ["/d2"]


def test_the_answer_waits_for_all_living_replicas(node: SimNode) -> None:
    node.create_topic("t")
    for value in (b"a", b"b", b"c"):
        node.produce("t", batch(value))
    world = give_followers(node, "t")
    partition = node.context.partitions.by_name("t", 0)
    client = node.connect()
    rows = [row("DeleteRecordsPartition", partition_index=0, offset=2)]
    body = build(
        ApiKey.DELETE_RECORDS, 2, topics=[row("DeleteRecordsTopic", name="t", partitions=rows)], timeout=60_000
    )
    client.post(ApiKey.DELETE_RECORDS, 2, body)
    node.advance(100)
    started = node.loop.time()
    # One is fenced: it is not waited for.
    world.brokers[3] = replace(world.brokers[3], fenced=True)
    for log_start in (1, 2):
        assert len(partition.waiters) == 1
        partition.followers.fetched(2, FollowerFetch(3, log_start))
    _, answer = node.run(client.response(ApiKey.DELETE_RECORDS, 2))
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.low_watermark) == (ErrorCode.none, 2)
    assert node.loop.time() - started < 1


def test_replicas_that_do_not_follow_in_time_are_reported(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    give_followers(node, "t")
    started = node.loop.time()
    assert trim(node, 1) == (ErrorCode.request_timed_out, -1)
    assert 1 <= node.loop.time() - started < 1.1


def test_lost_leadership_ends_the_wait(node: SimNode) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    give_followers(node, "t")
    node.loop.call_later(0.2, lambda: give_followers(node, "t", leader=2))
    assert trim(node, 1) == (ErrorCode.not_leader_or_follower, -1)


def test_leadership_that_was_lost_before_the_wait_is_noticed(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a", b"b"))
    save = node.context.logs.save_log_starts

    async def save_and_lose(dirs: set[str]) -> None:
        await save(dirs)
        give_followers(node, "t", leader=2)

    monkeypatch.setattr(node.context.logs, "save_log_starts", save_and_lose)
    assert trim(node, 1) == (ErrorCode.not_leader_or_follower, -1)


def test_replicas_that_followed_before_the_wait_are_not_waited_for(
    node: SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a", b"b"))
    give_followers(node, "t")
    partition = node.context.partitions.by_name("t", 0)
    save = node.context.logs.save_log_starts

    async def save_and_follow(dirs: set[str]) -> None:
        await save(dirs)
        for follower in (2, 3):
            partition.followers.fetched(follower, FollowerFetch(2, 1, follower))

    monkeypatch.setattr(node.context.logs, "save_log_starts", save_and_follow)
    assert trim(node, 1) == (ErrorCode.none, 1)
