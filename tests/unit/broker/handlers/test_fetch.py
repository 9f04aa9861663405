"""Fetch over the wire: limits, waiting, sessions, isolation, epochs, cold disks."""

from __future__ import annotations

import asyncio
import errno
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from crabka.config.java_classes import RACK_AWARE_SELECTOR
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.control import EndTransactionMarker, build_end_transaction_batch
from crabka.testing import FaultRule, FaultyFileSystem
from crabka.testing.faulty_storage import FaultyStorageManager
from tests.support.coordinators.txn_partitions import end, fake_coordinator, transactional_batch
from tests.support.coordinators.txn_partitions import produce as produce_transactional
from tests.support.nodes.sim_node import (
    SimNode,
    WireClient,
    batch,
    cold_node,
    fetch_body,
    produce_body,
    read_records,
    versions_of,
)
from tests.support.storage.replicas import fetch_as, give_followers
from tests.support.tiers.remote_reading import TIERED_SETTINGS, NodeTier, directory_tier, faulty_tier, tiered_topic


@pytest.fixture
def topic(node: SimNode) -> str:
    node.create_topic("t")
    return "t"


@pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
def test_every_version_reads(node: SimNode, version: int) -> None:
    topic_id = node.create_topic("t").topic_id
    node.produce("t", batch(b"a", b"b"))
    found = node.fetch(topic_id if version >= 13 else "t", 1, version=version)
    assert (found.error_code, found.high_watermark) == (ErrorCode.none, 2)
    # Batches come whole: a client skips what is before its offset.
    assert [record.value for record in read_records(found.records)] == [b"a", b"b"]


@pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
def test_an_idle_partition_has_empty_records_never_null(node: SimNode, version: int) -> None:
    topic_id = node.create_topic("t").topic_id
    found = node.fetch(topic_id if version >= 13 else "t", version=version)
    assert (found.error_code, found.records) == (ErrorCode.none, b"")


@pytest.mark.parametrize(
    ("name", "partition", "offset", "code"),
    [
        ("t", 0, 3, ErrorCode.offset_out_of_range),
        ("t", 0, -1, ErrorCode.offset_out_of_range),
        ("t", 5, 0, ErrorCode.unknown_topic_or_partition),
        ("nope", 0, 0, ErrorCode.unknown_topic_or_partition),
    ],
)
def test_what_cannot_be_read(
    node: SimNode, topic: str, name: str, partition: int, offset: int, code: ErrorCode
) -> None:
    node.produce(topic, batch(b"a", b"b"))
    # An error is returned at once, however long the client would wait.
    found = node.fetch(name, offset, partition=partition, max_wait=60_000)
    assert (found.error_code, found.records) == (code, b"")
    assert node.loop.time() < 1


def test_an_unknown_topic_id_is_reported(node: SimNode) -> None:
    assert node.fetch(uuid.UUID(int=3), version=13).error_code is ErrorCode.unknown_topic_id


def test_the_leader_epoch_of_the_client_is_checked(node: SimNode, topic: str) -> None:
    node.restart()  # now the epoch is 2
    assert node.fetch(topic, current_leader_epoch=0).error_code is ErrorCode.fenced_leader_epoch
    assert node.fetch(topic, current_leader_epoch=2).error_code is ErrorCode.none
    assert node.fetch(topic, current_leader_epoch=3).error_code is ErrorCode.unknown_leader_epoch


def test_a_client_on_another_branch_learns_where_to_cut(node: SimNode, topic: str) -> None:
    node.produce(topic, batch(b"a"))
    node.restart()
    node.produce(topic, batch(b"b"))
    found = node.fetch(topic, 2, last_fetched_epoch=0, max_wait=60_000)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)
    assert node.loop.time() < 1  # it is returned at once
    assert node.fetch(topic, 2, last_fetched_epoch=2).diverging_epoch.epoch == -1


def test_batches_beyond_the_limit_stay_out(node: SimNode, topic: str) -> None:
    for _ in range(3):
        node.produce(topic, batch(bytes(1000)))
    size = len(batch(bytes(1000)))
    assert len(node.fetch(topic, partition_max_bytes=2 * size).records) == 2 * size
    assert len(node.fetch(topic, max_bytes=2 * size).records) == 2 * size


def test_the_first_batch_comes_whatever_the_limit(node: SimNode) -> None:
    node.create_topic("t", 2)
    for index in (0, 1):
        node.produce("t", batch(bytes(1000)), partition=index)
    body = fetch_body([("t", 0, 0), ("t", 1, 0)], max_bytes=10, partition_max_bytes=10)
    rows = [row for topic in node.ask(ApiKey.FETCH, 12, body).responses for row in topic.partitions]
    assert [len(row.records) > 0 for row in rows] == [True, False]


# -- waiting -----------------------------------------------------------------------------------------------------


def post_fetch(node: SimNode, **options: Any) -> WireClient:
    client = node.connect()
    client.post(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)], **options))
    return client


def answer(node: SimNode, client: WireClient) -> Any:
    _, body = node.run(client.response(ApiKey.FETCH, 12))
    return body.responses[0].partitions[0]


def test_an_idle_fetch_ends_when_its_time_is_up(node: SimNode, topic: str) -> None:
    started = node.loop.time()
    assert node.fetch(topic, max_wait=500).records == b""
    assert 0.5 <= node.loop.time() - started < 0.6


def test_an_append_wakes_a_waiting_fetch(node: SimNode, topic: str) -> None:
    client = post_fetch(node, max_wait=60_000)
    node.advance(100)
    node.produce(topic, batch(b"a"))
    woken = answer(node, client)
    assert [record.value for record in read_records(woken.records)] == [b"a"]
    assert node.loop.time() < 1


def test_under_read_committed_only_the_end_of_the_transaction_wakes(node: SimNode, topic: str) -> None:
    fake_coordinator(node)
    client = post_fetch(node, max_wait=60_000, isolation_level=1)
    node.advance(100)
    produce_transactional(node, topic, transactional_batch(b"a"))
    node.advance(100)
    produce_transactional(node, topic, transactional_batch(b"b", sequence=1))
    node.advance(100)
    assert len(node.context.partitions.by_name(topic, 0).waiters) == 1
    end(node, [(topic, 0)], commit=True)
    woken = answer(node, client)
    assert [record.value for record in read_records(woken.records)][:2] == [b"a", b"b"]
    assert node.loop.time() < 1


def test_a_fetch_that_came_after_the_data_is_woken_by_the_marker(node: SimNode, topic: str) -> None:
    fake_coordinator(node)
    produce_transactional(node, topic, transactional_batch(b"a" * 500))
    client = post_fetch(node, max_wait=60_000, isolation_level=1, min_bytes=300)
    node.advance(100)
    end(node, [(topic, 0)], commit=False)
    woken = answer(node, client)
    assert [each.first_offset for each in woken.aborted_transactions] == [0]
    assert node.loop.time() < 1


def test_under_read_committed_plain_batches_wake_at_once(node: SimNode, topic: str) -> None:
    client = post_fetch(node, max_wait=60_000, isolation_level=1)
    node.advance(100)
    node.produce(topic, batch(b"a"))
    assert read_records(answer(node, client).records)
    assert node.loop.time() < 1


def test_a_fetch_waits_for_its_minimum(node: SimNode, topic: str) -> None:
    size = len(batch(b"a"))
    client = post_fetch(node, max_wait=60_000, min_bytes=3 * size)
    for count in (1, 2):
        node.produce(topic, batch(b"a"))
        node.advance(10)
        with pytest.raises(TimeoutError):
            node.run(asyncio.wait_for(client.frame(), 0.01))
        assert node.context.partitions.by_name(topic, 0).log.high_watermark == count
    node.produce(topic, batch(b"a"))
    assert len(answer(node, client).records) == 3 * size


def test_waiting_too_short_gives_less_than_the_minimum(node: SimNode, topic: str) -> None:
    node.produce(topic, batch(b"a"))
    assert len(node.fetch(topic, max_wait=100, min_bytes=10_000).records) == len(batch(b"a"))


def test_a_deleted_topic_ends_the_wait(node: SimNode, topic: str) -> None:
    client = post_fetch(node, max_wait=60_000)
    node.advance(10)
    node.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout=1000)
    assert answer(node, client).error_code is ErrorCode.unknown_topic_or_partition
    assert node.loop.time() < 1


def test_a_lost_connection_ends_its_wait(node: SimNode, topic: str) -> None:
    client = post_fetch(node, max_wait=600_000)
    node.advance(10)
    partition = node.context.partitions.by_name(topic, 0)
    assert len(partition.waiters) == 1
    client.transport.abort()
    node.advance(10)
    assert len(partition.waiters) == 0


def test_stopping_does_not_wait_for_long_polls(node: SimNode, topic: str) -> None:
    client = post_fetch(node, max_wait=600_000)
    node.advance(10)
    started = node.loop.time()
    node.stop()
    assert node.loop.time() - started < 1
    # A node that stops gives up its leaderships first, and serves what it has as a follower.
    assert answer(node, client).error_code is ErrorCode.none


def test_a_waiting_produce_answer_comes_before_the_fetch_that_it_woke(node: SimNode, topic: str) -> None:
    client = node.connect()
    # One connection: answers keep the order of requests even when the second is ready first.
    first = client.post(ApiKey.FETCH, 12, fetch_body([(topic, 0, 0)], max_wait=60_000))
    second = client.post(ApiKey.PRODUCE, 9, produce_body(topic, batch(b"a")))
    assert node.run(client.response(ApiKey.FETCH, 12))[0] == first
    assert node.run(client.response(ApiKey.PRODUCE, 9))[0] == second


# -- isolation ---------------------------------------------------------------------------------------------------


@pytest.fixture
def transactional(node: SimNode, topic: str) -> SimNode:
    """A partition with an aborted transaction at 0..1, a plain record at 2 and an open transaction from 3 on."""
    log = node.context.partitions.by_name(topic, 0).log
    options: dict[str, Any] = {"transactional": True, "producer_epoch": 0, "base_sequence": 0}
    epoch: dict[str, Any] = {"leader_epoch": 0, "now_ms": node.clock.now_ms()}
    log.append_as_leader(memoryview(batch(b"aborted", producer_id=5, **options)), **epoch)
    marker = build_end_transaction_batch(
        EndTransactionMarker(committed=False, coordinator_epoch=0), producer_id=5, producer_epoch=0, timestamp=0
    )
    log.append_as_leader(memoryview(marker), **epoch)
    log.append_as_leader(memoryview(batch(b"plain")), **epoch)
    log.append_as_leader(memoryview(batch(b"open", producer_id=6, **options)), **epoch)
    log.set_high_watermark(log.log_end_offset)
    return node


def test_read_uncommitted_sees_everything(transactional: SimNode) -> None:
    found = transactional.fetch("t")
    assert [record.offset for record in read_records(found.records)] == [0, 1, 2, 3]
    assert found.aborted_transactions is None


def test_read_committed_stops_at_the_last_stable_offset(transactional: SimNode) -> None:
    found = transactional.fetch("t", isolation_level=1)
    assert (found.last_stable_offset, found.high_watermark) == (3, 4)
    assert [record.offset for record in read_records(found.records)] == [0, 1, 2]
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [(5, 0)]


# -- sessions ----------------------------------------------------------------------------------------------------


class Session:
    """A client's end of an incremental fetch session."""

    def __init__(self, node: SimNode, *targets: tuple[Any, int, int], version: int = 12) -> None:
        self.node = node
        self.version = version
        self.epoch = 0
        self.session_id = 0
        first = self.ask(*targets)
        self.first = first
        self.session_id = first.session_id

    def ask(self, *targets: tuple[Any, int, int], epoch: int | None = None, **options: Any) -> Any:
        body = fetch_body(
            targets,
            version=self.version,
            session_id=self.session_id,
            session_epoch=self.epoch if epoch is None else epoch,
            **options,
        )
        found = self.node.ask(ApiKey.FETCH, self.version, body)
        if found.error_code is ErrorCode.none and epoch is None:
            self.epoch += 1
        return found

    def news(self, *targets: tuple[Any, int, int], **options: Any) -> list[tuple[str, int, int]]:
        found = self.ask(*targets, **options)
        assert found.error_code is ErrorCode.none
        return [
            (topic.topic, row.partition_index, len(row.records))
            for topic in found.responses
            for row in topic.partitions
        ]


def test_a_session_reports_only_news(node: SimNode) -> None:
    node.create_topic("t", 2)
    session = Session(node, ("t", 0, 0), ("t", 1, 0))
    assert session.session_id != 0
    assert len(session.first.responses[0].partitions) == 2
    assert session.news() == []
    node.produce("t", batch(b"a"), partition=1)
    size = len(batch(b"a"))
    assert session.news() == [("t", 1, size)]
    assert session.news() == [("t", 1, size)]  # the client has not moved on
    assert session.news(("t", 1, 1)) == []


def test_a_session_forgets_partitions(node: SimNode) -> None:
    node.create_topic("t", 2)
    session = Session(node, ("t", 0, 0), ("t", 1, 0))
    for index in (0, 1):
        node.produce("t", batch(b"a"), partition=index)
    size = len(batch(b"a"))
    assert session.news(forgotten=[("t", 1)]) == [("t", 0, size)]


def test_a_session_that_forgot_everything_is_gone(node: SimNode, topic: str) -> None:
    session = Session(node, (topic, 0, 0))
    assert session.ask(forgotten=[(topic, 0)]).session_id == 0
    assert len(node.context.fetch_sessions) == 0


def test_an_error_goes_away_in_a_session(node: SimNode, topic: str) -> None:
    session = Session(node, (topic, 0, 0))
    partition = node.context.partitions.by_name(topic, 0)
    node.context.partitions.remove(partition)
    assert len(session.news()) == 1
    node.context.partitions.add(partition)
    assert session.news() == [(topic, 0, 0)]
    assert session.news() == []


def test_wrong_sessions_and_epochs_are_refused(node: SimNode, topic: str) -> None:
    session = Session(node, (topic, 0, 0))
    assert session.ask(epoch=7).error_code is ErrorCode.invalid_fetch_session_epoch
    session.session_id += 1
    unknown = session.ask()
    assert (unknown.error_code, unknown.session_id) == (ErrorCode.fetch_session_id_not_found, 0)


def test_a_session_cannot_change_between_names_and_ids(node: SimNode, topic: str) -> None:
    session = Session(node, (topic, 0, 0))
    session.version = 13
    assert session.ask().error_code is ErrorCode.fetch_session_topic_id_error


def test_a_session_with_topic_ids(node: SimNode) -> None:
    topic_id = node.create_topic("t").topic_id
    session = Session(node, (topic_id, 0, 0), version=17)
    assert session.ask().responses == ()
    node.produce("t", batch(b"a"))
    (found,) = session.ask().responses
    assert found.topic_id == topic_id


def test_the_final_epoch_closes_a_session(node: SimNode, topic: str) -> None:
    session = Session(node, (topic, 0, 0))
    assert session.ask(epoch=-1).session_id == 0
    assert len(node.context.fetch_sessions) == 0


# -- cold disks --------------------------------------------------------------------------------------------------


def test_bytes_that_are_not_in_memory_are_read_in_a_thread() -> None:
    with cold_node() as node:
        node.create_topic("t", 2)
        for index in (0, 1):
            node.produce("t", batch(b"cold%d" % index), partition=index)
        body = fetch_body([("t", 0, 0), ("t", 1, 0)])
        rows = [row for topic in node.ask(ApiKey.FETCH, 12, body).responses for row in topic.partitions]
        assert [read_records(row.records)[0].value for row in rows] == [b"cold0", b"cold1"]


def test_a_cold_fetch_that_waited_reads_in_a_thread() -> None:
    with cold_node() as node:
        node.create_topic("t")
        client = post_fetch(node, max_wait=60_000)
        node.advance(10)
        node.produce("t", batch(b"late"))
        assert read_records(answer(node, client).records)[0].value == b"late"


@pytest.mark.parametrize("cold", [True, False])
def test_a_disk_that_cannot_be_read_costs_its_dir_only(cold: bool) -> None:
    with cold_node(log_dirs=("/d1", "/d2")) if cold else SimNode(log_dirs=("/d1", "/d2")) as node:
        faulty = FaultyFileSystem(node.fs)
        node.fs = faulty
        node.restart()
        node.create_topic("t", 2)
        for index in (0, 1):
            node.produce("t", batch(b"a"), partition=index)
        lost = next(p for p in node.context.partitions if p.log.log_dir == "/d2").index
        operation = "pread" if cold else "pread_nowait"
        faulty.add(FaultRule(operation=operation, path="/d2/*", error=errno.EIO))
        body = fetch_body([("t", 0, 0), ("t", 1, 0)], session_epoch=0)
        found = node.ask(ApiKey.FETCH, 12, body)
        codes = {row.partition_index: row.error_code for topic in found.responses for row in topic.partitions}
        assert codes == {lost: ErrorCode.kafka_storage_error, 1 - lost: ErrorCode.none}
        assert found.session_id != 0
        assert node.context.logs.offline_dirs == ["/d2"]


def test_many_bytes_are_answered_with_ranges_of_the_segment(node: SimNode, topic: str) -> None:
    values = [bytes((number,)) * 40_000 for number in range(8)]
    for value in values:
        node.produce(topic, batch(value))
    # The simulated network has no sockets: what arrives there was read from the range.
    found = node.fetch(topic)
    assert [record.value for record in read_records(found.records)] == values
    found = node.fetch(topic, 3)
    assert [record.value for record in read_records(found.records)] == values[3:]


# -- followers and other leaders ---------------------------------------------------------------------------------


def replicate(node: SimNode, follower: int, topic: Any, offset: int, *, version: int = 12, **options: Any) -> Any:
    """Fetch as a follower and return the row."""
    body = fetch_as(follower, topic, offset, version=version, **options)
    return node.ask(ApiKey.FETCH, version, body).responses[0].partitions[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
def test_a_follower_reads_to_the_log_end_in_every_version(node: SimNode, version: int) -> None:
    topic_id = node.create_topic("t").topic_id
    give_followers(node, "t")
    node.produce("t", batch(b"a", b"b"), acks=1)
    name = topic_id if version >= 13 else "t"
    found = replicate(node, 2, name, 0, version=version)
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (ErrorCode.none, 0, 0)
    assert [record.value for record in read_records(found.records)] == [b"a", b"b"]
    assert node.fetch(name, 0, version=version).records == b""
    replicate(node, 2, name, 2, version=version)
    # The answer to the last one shows what its own fetch made of the high watermark.
    assert replicate(node, 3, name, 2, version=version).high_watermark == 2
    assert [record.value for record in read_records(node.fetch(name, 0, version=version).records)] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("follower", "options", "code"),
    [
        (9, {"current_leader_epoch": 1}, ErrorCode.unknown_leader_epoch),
        (9, {}, ErrorCode.not_leader_or_follower),
        (2, {"current_leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
        (2, {"broker_epoch": 1}, ErrorCode.not_leader_or_follower),
        (2, {"offset": 7}, ErrorCode.offset_out_of_range),
    ],
)
def test_what_is_refused_to_a_follower_is_no_progress(
    node: SimNode, topic: str, follower: int, options: dict[str, int], code: ErrorCode
) -> None:
    give_followers(node, topic)
    partition = node.context.partitions.by_name(topic, 0)
    topic_id, offset = partition.topic_id, options.pop("offset", 0)
    found = replicate(node, follower, topic_id, offset, version=15, max_wait=60_000, **options)
    assert found.error_code is code
    assert partition.replication is not None
    assert partition.replication.followers[2].log_end_offset == -1


def test_a_follower_on_another_branch_is_no_progress(node: SimNode, topic: str) -> None:
    node.produce(topic, batch(b"a"))
    give_followers(node, topic)
    node.produce(topic, batch(b"b"), acks=1)
    found = replicate(node, 2, topic, 2, last_fetched_epoch=0, max_wait=60_000)
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)
    replication = node.context.partitions.by_name(topic, 0).replication
    assert replication is not None
    assert replication.followers[2].log_end_offset == -1


def waiting_follower(node: SimNode, topic: str, offset: int = 0, **options: Any) -> WireClient:
    """Let follower 2 wait for up to ten seconds."""
    client = node.connect()
    client.post(ApiKey.FETCH, 12, fetch_as(2, topic, offset, max_wait=10_000, **options))
    node.advance(1)
    return client


def test_a_follower_waits_for_appends(node: SimNode, topic: str) -> None:
    give_followers(node, topic)
    client = waiting_follower(node, topic)
    started = node.loop.time()
    node.produce(topic, batch(b"a"), acks=1)
    _, answer = node.run(client.response(ApiKey.FETCH, 12))
    assert node.loop.time() - started < 1
    assert len(answer.responses[0].partitions[0].records) == len(batch(b"a"))
    assert len(node.context.partitions.by_name(topic, 0).waiters) == 0


@pytest.mark.parametrize("prompt", [True, False])
def test_high_watermarks_are_reported_at_once_where_consumers_read_from_followers(prompt: bool) -> None:
    settings = {"replica.selector.class": RACK_AWARE_SELECTOR} if prompt else {}
    with SimNode(settings) as node:
        node.create_topic("t")
        give_followers(node, "t")
        node.produce("t", batch(b"a"), acks=1)
        first = waiting_follower(node, "t", 1)
        if prompt:
            # It has not received any high watermark yet.
            node.run(first.response(ApiKey.FETCH, 12))
            first = waiting_follower(node, "t", 1)
        started = node.loop.time()
        replicate(node, 3, "t", 1)
        _, answer = node.run(first.response(ApiKey.FETCH, 12))
        assert answer.responses[0].partitions[0].high_watermark == 1
        assert (node.loop.time() - started < 1) is prompt


def test_a_consumer_waits_for_the_high_watermark(node: SimNode, topic: str) -> None:
    give_followers(node, topic)
    client = node.connect()
    client.post(ApiKey.FETCH, 12, fetch_body([(topic, 0, 0)], max_wait=10_000))
    node.advance(1)
    node.produce(topic, batch(b"a"), acks=1)
    node.advance(1000)
    replicate(node, 2, topic, 1)
    started = node.loop.time()
    replicate(node, 3, topic, 1)
    _, answer = node.run(client.response(ApiKey.FETCH, 12))
    assert len(answer.responses[0].partitions[0].records) == len(batch(b"a"))
    assert node.loop.time() - started < 1


def test_lost_leadership_ends_the_wait_of_a_follower(node: SimNode, topic: str) -> None:
    give_followers(node, topic)
    client = waiting_follower(node, topic)
    give_followers(node, topic, leader=2)
    _, answer = node.run(client.response(ApiKey.FETCH, 12))
    assert answer.responses[0].partitions[0].error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("version", [10, 11, 12])
def test_consumers_since_version_11_may_read_from_a_follower(node: SimNode, topic: str, version: int) -> None:
    node.produce(topic, batch(b"a"))
    give_followers(node, topic, leader=2)
    found = node.fetch(topic, 0, version=version)
    if version < 11:
        assert found.error_code is ErrorCode.not_leader_or_follower
        return
    assert len(found.records) == len(batch(b"a"))
    assert node.fetch(topic, 0, version=version, current_leader_epoch=0).error_code is ErrorCode.fenced_leader_epoch
    assert node.fetch(topic, 5, version=version).error_code is ErrorCode.offset_out_of_range


@pytest.mark.parametrize("version", [10, 11, 18])
def test_consumers_are_sent_to_the_replica_of_their_rack(version: int) -> None:
    with SimNode({"replica.selector.class": RACK_AWARE_SELECTOR}) as node:
        topic_id = node.create_topic("t").topic_id
        world = give_followers(node, "t")
        world.brokers[2] = replace(world.brokers[2], rack="b")
        node.produce("t", batch(b"a"), acks=1)
        name = topic_id if version >= 13 else "t"
        replicate(node, 2, "t", 1)
        replicate(node, 3, "t", 1)
        found = node.fetch(name, 0, version=version, rack_id="b", max_wait=60_000)
        assert (found.high_watermark, len(found.records) == 0) == (1, version >= 11)
        assert getattr(found, "preferred_read_replica", -1) == (2 if version >= 11 else -1)
        elsewhere = node.fetch(name, 0, version=version, rack_id="c")
        assert len(elsewhere.records) == len(batch(b"a"))


def test_a_session_is_notified_of_a_preferred_replica_each_time() -> None:
    with SimNode({"replica.selector.class": RACK_AWARE_SELECTOR}) as node:
        node.create_topic("t")
        world = give_followers(node, "t")
        world.brokers[2] = replace(world.brokers[2], rack="b")
        replicate(node, 2, "t", 0)
        body = fetch_body([("t", 0, 0)], rack_id="b", session_epoch=0)
        session_id = node.ask(ApiKey.FETCH, 12, body).session_id
        for epoch in (1, 2):
            again = fetch_body([], rack_id="b", session_id=session_id, session_epoch=epoch, max_wait=60_000)
            assert node.ask(ApiKey.FETCH, 12, again).responses[0].partitions[0].preferred_read_replica == 2


@pytest.mark.parametrize("version", [15, 16, 18])
def test_an_old_epoch_learns_who_leads_now(node: SimNode, topic: str, version: int) -> None:
    node.restart()
    partition = node.context.partitions.by_name(topic, 0)
    body = fetch_body([(partition.topic_id, 0, 0)], version=version, current_leader_epoch=0)
    answer = node.ask(ApiKey.FETCH, version, body)
    found = answer.responses[0].partitions[0]
    assert found.error_code is ErrorCode.fenced_leader_epoch
    leader = (found.current_leader.leader_id, found.current_leader.leader_epoch)
    assert leader == ((1, partition.leader_epoch) if version >= 16 else (-1, -1))
    if version >= 16:
        assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(1, "node", 9092)]


def test_a_throttled_follower_gets_nothing_for_now(node: SimNode, topic: str) -> None:
    world = give_followers(node, topic, 1)
    node.produce(topic, batch(b"a"), acks=1)
    partition = node.context.partitions.by_name(topic, 0)
    partition.log.update_config(replace(partition.log.config, leader_replication_throttled_replicas=("*",)))
    world.host.throttle.bytes_per_second = 10
    size = len(batch(b"a"))
    assert len(replicate(node, 2, topic, 0).records) == size
    started = node.loop.time()
    found = replicate(node, 2, topic, 0, max_wait=300)
    assert (found.error_code, found.records) == (ErrorCode.none, b"")
    assert node.loop.time() - started >= 0.3
    world.now_ms += 60_000
    assert len(replicate(node, 2, topic, 0).records) == size


# -- the remote tier ---------------------------------------------------------------------------------------------


@pytest.fixture
def tiered_node() -> Iterator[SimNode]:
    with SimNode(TIERED_SETTINGS) as running:
        yield running


@pytest.mark.parametrize("version", versions_of(ApiKey.FETCH))
def test_every_version_reads_from_the_tier(tiered_node: SimNode, version: int) -> None:
    values = tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node, directory_tier)
    start = tier.tier("t")
    topic_id = tiered_node.context.partitions.by_name("t", 0).topic_id
    found = tiered_node.fetch(topic_id if version >= 13 else "t", 1, version=version)
    assert (found.error_code, found.high_watermark) == (ErrorCode.none, len(values))
    assert [record.value for record in read_records(found.records)] == values[1:start]
    assert getattr(found, "log_start_offset", 0) == 0
    tier.close()


def test_a_follower_is_notified_that_its_offset_moved_to_the_tier(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node)
    tier.tier("t")
    give_followers(tiered_node, "t")
    (answer,) = tiered_node.ask(ApiKey.FETCH, 12, fetch_as(2, "t", 0, max_wait=60_000)).responses
    (found,) = answer.partitions
    assert found.error_code is ErrorCode.offset_moved_to_tiered_storage
    assert (found.high_watermark, found.log_start_offset, found.records) == (12, 0, b"")
    tier.close()


def test_what_the_log_has_does_not_wait_for_the_tier(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t", partitions=2)
    tier = NodeTier(tiered_node, faulty_tier)
    tier.tier("t")
    assert isinstance(tier.storage, FaultyStorageManager)
    threads = tier.hold()
    before = tiered_node.loop.time()
    body = fetch_body([("t", 0, 0), ("t", 1, 0)], max_wait=60_000)
    (answer,) = tiered_node.ask(ApiKey.FETCH, 12, body).responses
    assert [len(row.records) > 0 for row in answer.partitions] == [False, True]
    assert [row.error_code for row in answer.partitions] == [ErrorCode.none] * 2
    assert tiered_node.loop.time() - before < 0.1
    # What the tier answers meanwhile is there for one of the next fetches.
    for _ in range(3):
        threads.release()
        tiered_node.advance(1)
        (answer,) = tiered_node.ask(ApiKey.FETCH, 12, body).responses
    assert [len(row.records) > 0 for row in answer.partitions] == [True, True]
    tier.close()


def test_a_tier_that_does_not_answer_is_waited_for_as_long_as_the_setting_says(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node)
    tier.tier("t")
    tier.hold()
    before = tiered_node.loop.time()
    found = tiered_node.fetch("t", 0, max_wait=60_000, min_bytes=1 << 20)
    assert (found.error_code, found.records) == (ErrorCode.none, b"")
    assert tiered_node.loop.time() - before == pytest.approx(0.5, abs=0.05)
    tier.close()


def test_a_produce_does_not_wait_for_a_tier_that_hangs(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node)
    start = tier.tier("t")
    tier.hold()
    client = tiered_node.connect()
    client.post(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)], max_wait=60_000))
    before = tiered_node.loop.time()
    assert tiered_node.produce("t", batch(b"new")).error_code == 0
    assert tiered_node.fetch("t", start).records
    assert tiered_node.loop.time() - before < 0.1
    tier.close()


def test_over_the_quota_nothing_is_read_from_the_tier_for_a_while(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t")
    tiered_node.restart({"remote.log.manager.fetch.max.bytes.per.second": "50"})
    tier = NodeTier(tiered_node)
    tier.tier("t")
    assert tiered_node.fetch("t", 0).records
    before = tiered_node.loop.time()
    found = tiered_node.fetch("t", 0, max_wait=2000)
    assert (found.error_code, found.records) == (ErrorCode.none, b"")
    assert tiered_node.loop.time() - before == pytest.approx(2, abs=0.1)
    tiered_node.advance(12_000)
    assert tiered_node.fetch("t", 0).records
    tier.close()


def test_a_node_without_a_tier_cannot_read_what_is_there(tiered_node: SimNode) -> None:
    tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node)
    tier.tier("t")
    tier.close()
    assert tiered_node.fetch("t", 0).error_code is ErrorCode.offset_out_of_range


def test_consumers_read_from_the_tier_through_followers(tiered_node: SimNode) -> None:
    values = tiered_topic(tiered_node, "t")
    tier = NodeTier(tiered_node)
    start = tier.tier("t")
    partition = tiered_node.context.partitions.by_name("t", 0)
    partition.is_leader = False
    found = tiered_node.fetch("t", 0)
    assert [record.value for record in read_records(found.records)] == values[:start]
    tier.close()
