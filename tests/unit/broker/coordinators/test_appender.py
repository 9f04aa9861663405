"""Appends of the coordinator."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from crabka.broker.coordinators.appender import coordinator_error, is_stored
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem
from tests.support.coordinators.members import NodeMember, find_coordinator
from tests.support.moves.partitions import HeldWatermark
from tests.support.nodes.sim_node import SimNode, read_records


def append(node: SimNode, pairs: list[tuple[bytes, bytes | None]]) -> ErrorCode:
    hosted = node.context.groups.shard_of("g")
    return node.run(node.context.groups.append_and_wait(hosted, pairs))


def test_records_are_in_one_batch_of_the_partition(node: SimNode) -> None:
    find_coordinator(node)
    assert append(node, [(b"k", b"v"), (b"l", None)]) is ErrorCode.none
    index = node.context.groups.partition_of("g")
    data = node.fetch("__consumer_offsets", partition=index).records
    assert [(record.key, record.value) for record in read_records(data)] == [(b"k", b"v"), (b"l", None)]


def test_a_large_batch_is_taken_as_it_was_built(node: SimNode) -> None:
    find_coordinator(node)
    partition = node.context.groups.shard_of("g").partition
    assert append(node, [(b"k", bytes(100_000))]) is ErrorCode.none
    assert partition.log.log_end_offset == 1


def test_a_topic_that_changes_batches_gets_them_changed(node: SimNode) -> None:
    find_coordinator(node)
    partition = node.context.groups.shard_of("g").partition
    partition.log.update_config(replace(partition.log.config, compression_type="gzip"))
    assert append(node, [(b"k", bytes(100_000))]) is ErrorCode.none
    assert partition.log.size_bytes < 5_000


def test_a_batch_that_the_topic_cannot_take_is_refused(node: SimNode) -> None:
    find_coordinator(node)
    assert append(node, [(b"k", bytes(2_000_000))]) is ErrorCode.message_too_large


def test_compression_is_as_the_settings_say() -> None:
    with SimNode({"offsets.topic.compression.codec": "1"}) as node:
        find_coordinator(node)
        assert append(node, [(b"k", bytes(1500))]) is ErrorCode.none
        assert node.context.groups.shard_of("g").partition.log.size_bytes < 500


def test_a_failed_disk_is_reported() -> None:
    node = SimNode(log_dirs=("/d1", "/d2"))
    faulty = FaultyFileSystem(node.memory)
    node.fs = faulty
    with node:
        find_coordinator(node)
        partitions = node.context.partitions.of_topic("__consumer_offsets")
        hosted = next(
            each for each in node.context.groups.shards if partitions[each.partition.index].log.log_dir == "/d2"
        )
        faulty.add(FaultRule(operation="pwritev", path="/d2/*", error=errno.EIO))
        reported = node.run(node.context.groups.append_and_wait(hosted, [(b"k", b"v")]))
        assert reported is ErrorCode.kafka_storage_error


@pytest.mark.parametrize(
    ("error_code", "reported"),
    [
        (ErrorCode.none, ErrorCode.none),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
def test_members_learn_where_the_fault_is(error_code: ErrorCode, reported: ErrorCode) -> None:
    assert coordinator_error(error_code) is reported


def test_too_few_replicas_refuse_a_commit(node: SimNode) -> None:
    node.create_topic("t")
    find_coordinator(node)
    node.context.groups.shard_of("g").partition.in_sync_count = 0
    assert NodeMember(node).commit() is ErrorCode.coordinator_not_available


@pytest.mark.parametrize("method", ["append", "append_in_time"])
def test_only_some_appends_are_given_up(node: SimNode, method: str) -> None:
    find_coordinator(node)
    held = HeldWatermark(node, node.context.groups.shard_of("g").partition)
    reported: list[ErrorCode] = []

    async def run() -> None:
        getattr(node.context.groups._appender, method)(held.partition, [(b"k", b"v")], reported.append)

    node.run(run())
    node.advance(4_900)
    assert reported == []
    node.advance(200)
    assert reported == ([ErrorCode.request_timed_out] if method == "append_in_time" else [])
    node.advance(3_600_000)
    held.advance()
    assert reported == [ErrorCode.request_timed_out if method == "append_in_time" else ErrorCode.none]


def test_records_on_too_few_replicas_are_stored_all_the_same() -> None:
    assert is_stored(ErrorCode.none)
    assert is_stored(ErrorCode.not_enough_replicas_after_append)
    assert not is_stored(ErrorCode.not_enough_replicas)
