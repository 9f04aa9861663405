"""Produce over the wire: acknowledgements, refused batches, order, idempotence."""

from __future__ import annotations

import asyncio
import gc
import struct
import tracemalloc
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from crabka.broker.handlers.produce import FIRST_VERSION_WITH_TOPIC_IDS
from crabka.broker.partition.append_queue import AppendQueue
from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.header import parse_header
from crabka.records.record import decode_records
from crabka.testing import FaultyFileSystem, disk_failure
from tests.support.faults.bombs import bomb
from tests.support.nodes.sim_node import SimNode, WireClient, batch, build, produce_body, row, versions_of
from tests.support.storage.replicas import fetch_as, give_followers, replicated_image
from tests.support.storage.small import make_batch


@pytest.fixture
def topic(node: SimNode) -> str:
    node.create_topic("t")
    return "t"


@pytest.mark.parametrize("version", versions_of(ApiKey.PRODUCE))
@pytest.mark.parametrize("acks", [-1, 1])
def test_every_version_appends(node: SimNode, version: int, acks: int) -> None:
    topic_id = node.create_topic("t").topic_id
    for offset in (0, 2):
        produced = node.produce("t", batch(b"a", b"b"), version=version, acks=acks, topic_id=topic_id)
        assert produced[:2] == (ErrorCode.none, offset)
        assert produced.row.log_append_time is None
    assert node.values("t") == [b"a", b"b", b"a", b"b"]


def test_without_acks_there_is_no_answer(node: SimNode, topic: str) -> None:
    node.client.post(ApiKey.PRODUCE, 9, produce_body(topic, batch(b"silent"), acks=0))
    # The next answer belongs to the next request: `ask` checks the correlation id.
    assert node.fetch(topic).high_watermark == 1
    assert node.values(topic) == [b"silent"]


@pytest.mark.parametrize(("name", "records"), [("nope", batch(b"a")), ("t", b"garbage" * 20)])
def test_without_acks_a_failure_closes_the_connection(node: SimNode, topic: str, name: str, records: bytes) -> None:
    with pytest.raises(ConnectionResetError):
        node.ask(ApiKey.PRODUCE, 9, produce_body(name, records, acks=0))
    assert node.loop.time() < 1  # long before idle connections are cut
    assert node.produce(topic, batch(b"next")).error_code == ErrorCode.none


@pytest.mark.parametrize("acks", [-2, 2, 32767])
def test_other_acks_are_refused(node: SimNode, topic: str, acks: int) -> None:
    assert node.produce(topic, batch(b"a"), acks=acks).error_code == ErrorCode.invalid_required_acks
    assert node.values(topic) == []


def patched(records: bytes, position: int, new: bytes) -> bytes:
    return records[:position] + new + records[position + len(new) :]


def with_crc(records: bytes) -> bytes:
    from crc32c import crc32c

    return patched(records, 17, struct.pack(">I", crc32c(records[21:])))


BAD_BATCHES: dict[str, tuple[bytes | None, ErrorCode]] = {
    "no records at all": (None, ErrorCode.invalid_record),
    "nothing": (b"", ErrorCode.corrupt_message),
    "wrong crc": (patched(batch(b"value"), 65, b"\xff"), ErrorCode.corrupt_message),
    "truncated": (batch(b"value")[:-1], ErrorCode.corrupt_message),
    "cut header": (batch(b"value")[:40], ErrorCode.corrupt_message),
    "magic 1": (patched(batch(b"value"), 16, b"\x01"), ErrorCode.invalid_record),
    "magic 0": (patched(batch(b"value"), 16, b"\x00"), ErrorCode.invalid_record),
    "two batches": (batch(b"a") + batch(b"b"), ErrorCode.invalid_record),
    "control batch": (batch(b"value", control=True), ErrorCode.invalid_record),
    "transactional, without an id": (
        batch(b"value", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0),
        ErrorCode.transactional_id_authorization_failed,
    ),
    "too large": (batch(bytes(1_048_588)), ErrorCode.message_too_large),
    "far future": (batch(b"value", timestamp=1_767_225_600_000 + 3_600_001 + 60_000), ErrorCode.invalid_timestamp),
    "wrong count": (with_crc(patched(batch(b"value"), 57, struct.pack(">i", 2))), ErrorCode.invalid_record),
    "base offset": (patched(batch(b"value"), 0, struct.pack(">q", 1)), ErrorCode.invalid_record),
    "append time": (with_crc(patched(batch(b"value"), 21, struct.pack(">h", 8))), ErrorCode.invalid_timestamp),
    "unknown codec": (
        with_crc(patched(batch(b"value"), 21, struct.pack(">h", 5))),
        ErrorCode.unsupported_compression_type,
    ),
}


@pytest.mark.parametrize("name", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_is_written(node: SimNode, topic: str, name: str) -> None:
    records, code = BAD_BATCHES[name]
    refused = node.produce(topic, records)
    assert refused[:2] == (code, -1)
    assert refused.row.error_message
    assert node.context.partitions.by_name(topic, 0).log.log_end_offset == 0
    assert node.produce(topic, batch(b"good")).error_code == ErrorCode.none


@pytest.mark.parametrize(("version", "code"), [(6, ErrorCode.unsupported_compression_type), (7, ErrorCode.none)])
def test_zstd_needs_version_7(node: SimNode, topic: str, version: int, code: ErrorCode) -> None:
    assert node.produce(topic, batch(b"z" * 100, codec=4), version=version).error_code == code


def test_unknown_partitions_have_their_own_codes(node: SimNode, topic: str) -> None:
    version = FIRST_VERSION_WITH_TOPIC_IDS
    topic_id = node.context.image.topics.by_name[topic].topic_id
    assert node.produce("nope", batch(b"a")).error_code == ErrorCode.unknown_topic_or_partition
    assert node.produce(topic, batch(b"a"), partition=4).error_code == ErrorCode.unknown_topic_or_partition
    for unknown in (uuid.UUID(int=9), None):
        assert node.produce("", batch(b"a"), version=version, topic_id=unknown).error_code == ErrorCode.unknown_topic_id
    produced = node.produce("", batch(b"a"), version=version, topic_id=topic_id, partition=4)
    assert produced.error_code == ErrorCode.unknown_topic_or_partition


def test_a_partition_that_is_not_led_here_is_refused(node: SimNode, topic: str) -> None:
    node.context.partitions.by_name(topic, 0).is_leader = False
    assert node.produce(topic, batch(b"a")).error_code == ErrorCode.not_leader_or_follower


def test_too_few_replicas_refuse_only_acks_all(node: SimNode, topic: str) -> None:
    partition = node.context.partitions.by_name(topic, 0)
    partition.in_sync_count = 0
    assert node.produce(topic, batch(b"a")).error_code == ErrorCode.not_enough_replicas
    assert node.produce(topic, batch(b"a"), acks=1).error_code == ErrorCode.none


@pytest.mark.parametrize("version", [9, 13])
def test_records_that_are_not_replicated_in_time_are_reported(node: SimNode, topic: str, version: int) -> None:
    partition = node.context.partitions.by_name(topic, 0)
    give_followers(node, topic)
    started = node.loop.time()
    reported = node.produce(topic, batch(b"a"), version=version, topic_id=partition.topic_id, timeout=300)
    assert reported[:2] == (ErrorCode.request_timed_out, -1)
    assert 0.3 <= node.loop.time() - started < 0.4
    assert node.produce(topic, batch(b"a"), acks=1)[:2] == (ErrorCode.none, 1)


def produce_and_wait(node: SimNode, topic: str, version: int = 9) -> WireClient:
    """Let a produce with acks=all wait for its replicas."""
    client = node.connect()
    topic_id = node.context.partitions.by_name(topic, 0).topic_id
    client.post(
        ApiKey.PRODUCE, version, produce_body(topic, batch(b"a"), version=version, topic_id=topic_id, timeout=60_000)
    )
    node.advance(1)
    return client


def row_of(node: SimNode, client: WireClient, version: int = 9) -> Any:
    _, answer = node.run(client.response(ApiKey.PRODUCE, version))
    return answer.responses[0].partition_responses[0]


def replicate(node: SimNode, topic: str, offset: int, *followers: int) -> None:
    for follower in followers:
        node.ask(ApiKey.FETCH, 12, fetch_as(follower, topic, offset))


def test_acks_all_waits_for_the_replicas_in_sync(node: SimNode, topic: str) -> None:
    give_followers(node, topic, 1, 2)
    started = node.loop.time()
    client = produce_and_wait(node, topic)
    assert len(node.context.partitions.by_name(topic, 0).waiters) == 1
    replicate(node, topic, 1, 2)
    row = row_of(node, client)
    assert (row.error_code, row.base_offset) == (ErrorCode.none, 0)
    assert node.loop.time() - started < 1


def test_an_isr_that_shrank_too_far_after_the_append_is_reported(node: SimNode, topic: str) -> None:
    assert node.set_configs(2, topic, min_insync_replicas="2") == 0
    give_followers(node, topic, 1, 2)
    partition = node.context.partitions.by_name(topic, 0)
    client = produce_and_wait(node, topic)
    # It has the records, but not all that the topic demands have them any more when they are committed.
    image = replicated_image(1, leader_epoch=partition.leader_epoch, partition_epoch=11)
    partition.become(image, node_id=1)
    partition.log.set_high_watermark(1)
    partition.waiters.note_followed(0)
    assert row_of(node, client).error_code is ErrorCode.not_enough_replicas_after_append


@pytest.mark.parametrize("version", [9, 10, 13])
def test_lost_leadership_is_reported_with_the_leader(node: SimNode, topic: str, version: int) -> None:
    give_followers(node, topic)
    client = produce_and_wait(node, topic, version)
    give_followers(node, topic, leader=2)
    found = row_of(node, client, version)
    assert found.error_code is ErrorCode.not_leader_or_follower
    if version >= 10:
        epoch = node.context.partitions.by_name(topic, 0).leader_epoch
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, epoch)


def produce_beside_a_held_row(node: SimNode, during: Callable[[], None]) -> list[Any]:
    """Write to `t`, at once, and to `held`, whose batch waits for its turn until `during` has run; return both rows."""
    node.create_topic("t")
    node.create_topic("held")
    give_followers(node, "t")
    held = node.context.partitions.by_name("held", 0)
    topics = [
        row("TopicProduceData", name=name, partition_data=[row("PartitionProduceData", index=0, records=batch(b"v"))])
        for name in ("t", "held")
    ]
    client = node.connect()

    async def run() -> Any:
        async with held.queue.turn():
            body = build(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=30_000, topic_data=topics)
            client.post(ApiKey.PRODUCE, 9, body)
            while not node.context.partitions.by_name("t", 0).log.log_end_offset:
                await asyncio.sleep(0.001)
            during()
        return (await client.response(ApiKey.PRODUCE, 9))[1]

    return [topic.partition_responses[0] for topic in node.run(run()).responses]


def test_records_that_were_replicated_before_the_answer_could_wait_are_acknowledged_at_once(node: SimNode) -> None:
    def replicated() -> None:
        for follower in (2, 3):
            node.context.partitions.by_name("t", 0).followers.fetched(follower, FollowerFetch(1, 0, follower))

    rows = produce_beside_a_held_row(node, replicated)
    assert [each.error_code for each in rows] == [ErrorCode.none, ErrorCode.none]
    assert node.loop.time() < 1


@pytest.mark.parametrize("leads_again", [False, True])
def test_an_offset_that_holds_another_record_by_now_is_not_acknowledged(node: SimNode, leads_again: bool) -> None:
    def cut_and_fill() -> None:
        partition = node.context.partitions.by_name("t", 0)
        give_followers(node, "t", leader=2)
        partition.log.truncation.truncate_to(0)
        partition.log.copying.append_as_follower(make_batch(1, leader_epoch=partition.leader_epoch))
        partition.log.set_high_watermark(1)
        if leads_again:
            give_followers(node, "t")

    rows = produce_beside_a_held_row(node, cut_and_fill)
    assert [each.error_code for each in rows] == [ErrorCode.not_leader_or_follower, ErrorCode.none]
    assert rows[0].base_offset == -1


def test_another_epoch_between_a_queued_append_and_its_answer_is_noticed(
    node: SimNode, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = node.context.partitions.by_name(topic, 0)
    give_followers(node, topic)
    append_in_thread = AppendQueue.append

    async def append_then_lose(*arguments: Any, **options: Any) -> Any:
        result = await append_in_thread(*arguments, **options)
        # The task that waits for this one runs later.
        give_followers(node, topic, leader=2)
        partition.log.truncation.truncate_to(0)
        partition.log.copying.append_as_follower(make_batch(1, leader_epoch=partition.leader_epoch))
        partition.log.set_high_watermark(1)
        give_followers(node, topic)
        return result

    monkeypatch.setattr(AppendQueue, "append", append_then_lose)
    partition.writer.note_append(partition.writer.slow_append_ms * 100)
    assert node.produce(topic, batch(b"a"), timeout=30_000).error_code == ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("version", [9, 10, 13])
def test_a_producer_at_the_wrong_node_learns_where_to_go(node: SimNode, topic: str, version: int) -> None:
    partition = node.context.partitions.by_name(topic, 0)
    partition.is_leader = False
    body = produce_body(topic, batch(b"a"), version=version, topic_id=partition.topic_id)
    answer = node.ask(ApiKey.PRODUCE, version, body)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.not_leader_or_follower
    if version >= 10:
        assert answer.responses[0].partition_responses[0].current_leader.leader_id == 1
        assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(1, "node", 9092)]


def test_one_bad_partition_does_not_spoil_the_others(node: SimNode) -> None:
    node.create_topic("t", 2)
    rows = [
        row("PartitionProduceData", index=0, records=b"x" * 70),
        row("PartitionProduceData", index=1, records=batch(b"good")),
    ]
    body = build(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout=1000,
        topic_data=[row("TopicProduceData", name="t", partition_data=rows)],
    )
    bad, good = node.ask(ApiKey.PRODUCE, 9, body).responses[0].partition_responses
    assert (bad.index, good.index, good.error_code) == (0, 1, ErrorCode.none)
    assert bad.error_code != ErrorCode.none
    assert node.values("t", 1) == [b"good"]


def test_log_append_time_replaces_the_clients(node: SimNode) -> None:
    node.create_topic("t", message_timestamp_type="LogAppendTime")
    produced = node.produce("t", batch(b"a", timestamp=5))
    now_ms = node.clock.now_ms()
    stored = bytes(node.fetch("t").records)
    header = parse_header(stored)
    assert header.timestamp_type == 1
    assert produced.row.log_append_time is not None
    assert abs(header.max_timestamp - now_ms) < 100
    assert [record.timestamp for record in decode_records(stored)] == [header.max_timestamp]


def test_a_compacted_topic_needs_keys(node: SimNode) -> None:
    node.create_topic("t", cleanup_policy="compact")
    refused = node.produce("t", batch(b"no key"))
    assert refused.error_code == ErrorCode.invalid_record
    assert [error.batch_index for error in refused.row.record_errors] == [0]
    assert node.produce("t", batch(b"value", key=b"k")).error_code == ErrorCode.none


def post_all(node: SimNode, bodies: list[Any]) -> list[tuple[int, int]]:
    """Send all requests without waiting; return error code and base offset of the answers, in order."""
    client = node.connect()
    sent = [client.post(ApiKey.PRODUCE, 9, body) for body in bodies]
    answers = [node.run(client.response(ApiKey.PRODUCE, 9)) for _ in bodies]
    assert [correlation_id for correlation_id, _ in answers] == sent
    rows = [answer.responses[0].partition_responses[0] for _, answer in answers]
    return [(int(each.error_code), each.base_offset) for each in rows]


def test_recompression_keeps_the_order_of_pipelined_requests(node: SimNode) -> None:
    node.create_topic("t", compression_type="zstd")
    # Large batches go through the pool, small ones would not: they must not overtake.
    values = [bytes([65 + index]) * (10_000 if index % 2 == 0 else 10) for index in range(8)]
    answers = post_all(node, [produce_body("t", batch(value)) for value in values])
    assert answers == [(0, offset) for offset in range(8)]
    assert node.values("t") == values
    assert parse_header(bytes(node.fetch("t").records)).codec == 4


def test_a_bad_batch_in_the_pool_is_refused_alone(node: SimNode) -> None:
    node.create_topic("t", cleanup_policy="compact")
    bodies = [produce_body("t", batch(bytes(5000), key=b"k" if index != 1 else None)) for index in range(3)]
    assert post_all(node, bodies) == [(0, 0), (int(ErrorCode.invalid_record), -1), (0, 1)]


def test_records_are_validated_where_the_node_is_configured() -> None:
    good = batch(b"value", b"other")
    # The second record claims a length that the batch does not hold; its header and checksum are right.
    bad = with_crc(patched(good, len(good) - 12, b"\x7f"))
    assert bad != good
    with SimNode() as trusting:
        trusting.create_topic("t")
        assert trusting.produce("t", bad).error_code == ErrorCode.none
    with SimNode({"crabka.validate.records": "true"}) as strict:
        strict.create_topic("t")
        assert strict.produce("t", bad).error_code in (ErrorCode.corrupt_message, ErrorCode.invalid_record)
        assert strict.produce("t", good)[:2] == (ErrorCode.none, 0)
        assert strict.values("t") == [b"value", b"other"]


def sequenced(sequence: int, *, epoch: int = 0, producer_id: int = 7) -> bytes:
    return batch(b"s", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_a_repeated_batch_gets_its_first_offset(node: SimNode, topic: str) -> None:
    for sequence in range(6):
        assert node.produce(topic, sequenced(sequence))[:2] == (ErrorCode.none, sequence)
    assert node.produce(topic, sequenced(3))[:2] == (ErrorCode.none, 3)
    assert node.produce(topic, sequenced(0)).error_code == ErrorCode.duplicate_sequence_number
    assert node.context.partitions.by_name(topic, 0).log.log_end_offset == 6


def test_a_gap_in_the_sequence_is_refused(node: SimNode, topic: str) -> None:
    node.produce(topic, sequenced(0))
    assert node.produce(topic, sequenced(2)).error_code == ErrorCode.out_of_order_sequence_number
    assert node.produce(topic, sequenced(1)).error_code == ErrorCode.none


def test_an_older_epoch_is_fenced(node: SimNode, topic: str) -> None:
    node.produce(topic, sequenced(0, epoch=1))
    assert node.produce(topic, sequenced(1, epoch=0)).error_code == ErrorCode.invalid_producer_epoch


def test_idempotence_survives_restart_and_crash(node: SimNode, topic: str) -> None:
    node.produce(topic, sequenced(0))
    node.restart()
    assert node.produce(topic, sequenced(0))[:2] == (ErrorCode.none, 0)
    node.produce(topic, sequenced(1))
    node.context.partitions.by_name(topic, 0).log.flush()
    node.crash()
    node.start()
    assert node.produce(topic, sequenced(1))[:2] == (ErrorCode.none, 1)
    assert node.produce(topic, sequenced(3)).error_code == ErrorCode.out_of_order_sequence_number


def test_a_disk_that_fails_costs_its_dir_only() -> None:
    with SimNode(log_dirs=("/d1", "/d2")) as node:
        faulty = FaultyFileSystem(node.memory)
        node.fs = faulty
        node.restart()
        node.create_topic("t", 2)
        lost = next(p for p in node.context.partitions if p.log.log_dir == "/d2").index
        faulty.add(disk_failure("/d2/*"))
        failed = node.produce("t", batch(b"a"), partition=lost)
        assert failed[:2] == (ErrorCode.kafka_storage_error, -1)
        assert node.produce("t", batch(b"a"), partition=lost).error_code == ErrorCode.kafka_storage_error
        assert node.produce("t", batch(b"a"), partition=1 - lost).error_code == ErrorCode.none


def test_refused_bombs_leave_nothing_though_the_collector_never_runs(node: SimNode) -> None:
    node.create_topic("t", cleanup_policy="compact")
    # The records of the second one have no keys: what it holds is the request itself.
    refused = {ErrorCode.message_too_large: bomb(4, 64 << 20), ErrorCode.invalid_record: batch(bytes(900_000))}
    for code, records in refused.items():
        assert node.produce("t", records).error_code == code
    tracemalloc.start()
    gc.collect()
    gc.disable()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(5):
            for code, records in refused.items():
                assert node.produce("t", records).error_code == code
        after, _ = tracemalloc.get_traced_memory()
    finally:
        gc.enable()
        tracemalloc.stop()
    assert after - before < 1 << 20
