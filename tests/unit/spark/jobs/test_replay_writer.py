"""Rows and progress go into one transaction; a second attempt fences the first and repeats nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.group_types import GroupOffset
from crabka.clients.errors import AbortableTransactionError, TransactionError
from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.decode import arrow_schema
from crabka.spark.jobs.replay import COLUMNS
from crabka.spark.jobs.replay_writer import (
    ReplayRow,
    ReplayTarget,
    ReplayWriter,
    SourceIdentity,
    committed_witness,
    in_transactions,
    rows_of_batch,
)
from crabka.spark.plan.history.witnesses import BatchWitness, Chain
from tests.support.clusters.loopback import loopback_cluster
from tests.support.coordinators.memory_transactions import MemoryTransactions

SOURCE = SourceIdentity("orders", "id-1")
T1 = TopicPartition("t", 1)


@pytest.fixture
def world() -> Iterator[tuple[MemoryTransactions, ReplayTarget]]:
    with loopback_cluster() as (cluster, bootstrap):
        cluster.create_topic("t", 2)
        yield MemoryTransactions(cluster), ReplayTarget(bootstrap=bootstrap, topic="t", name="r")


def rows(start: int, count: int = 10) -> list[ReplayRow]:
    return [
        ReplayRow(offset, b"k", b"%d" % offset, (("h", b"x"),), 1_000 + offset)
        for offset in range(start, start + count)
    ]


World = tuple[MemoryTransactions, ReplayTarget]


def test_rows_keep_what_they_have_and_progress_is_committed_with_them(world: World) -> None:
    coordinator, target = world
    with ReplayWriter(target, SOURCE, 1) as writer:
        assert writer.next_offset == 0
        assert writer.write(rows(5), 20) == 10
    assert coordinator.committed == {"r": {T1: 20}}
    records = coordinator.cluster.topics["t"][1].records()
    assert [(record.key, record.value, record.headers, record.timestamp) for record in records[:10]] == [
        (row.key, row.value, row.headers, row.timestamp_ms) for row in rows(5)
    ]


def test_next_attempt_goes_on_where_the_last_transaction_ended(world: World) -> None:
    coordinator, target = world
    with ReplayWriter(target, SOURCE, 1) as writer:
        writer.write(rows(0), 10)
    with ReplayWriter(target, SOURCE, 1) as writer:
        assert writer.next_offset == 10
        assert writer.write(rows(0), 10) == 0
        assert writer.write(rows(5), 15) == 5
    assert coordinator.committed_values[T1] == [b"%d" % number for number in range(15)]


def test_progress_that_is_not_settled_yet_is_waited_for(world: World) -> None:
    coordinator, target = world
    with ReplayWriter(target, SOURCE, 1) as writer:
        writer.write(rows(0), 10)
    # The other partition is in the middle of its own transaction, for long.
    coordinator.unstable_answers = {T1: 2, TopicPartition("t", 0): 1_000_000}
    with ReplayWriter(target, SOURCE, 1) as writer:
        assert writer.next_offset == 10
    assert coordinator.unstable_answers == {T1: 0, TopicPartition("t", 0): 1_000_000}


def test_attempt_that_was_thought_dead_is_fenced(world: World) -> None:
    coordinator, target = world
    with ReplayWriter(target, SOURCE, 1) as first:
        first.write(rows(0), 10)
        with ReplayWriter(target, SOURCE, 1) as second:
            with pytest.raises(TransactionError):
                first.write(rows(10), 20)
            second.write(rows(10), 20)
    assert coordinator.committed_values[T1] == [b"%d" % number for number in range(20)]


def test_spoilt_transactions_are_tried_again(world: World) -> None:
    coordinator, target = world
    with ReplayWriter(target, SOURCE, 1) as writer:
        coordinator.cluster.fail_next(ApiKey.PRODUCE, ErrorCode.message_too_large)
        assert writer.write(rows(0), 10) == 10
        coordinator.cluster.fail_next(ApiKey.PRODUCE, *[ErrorCode.message_too_large] * 3)
        with pytest.raises(AbortableTransactionError):
            writer.write(rows(10), 20)
    assert coordinator.committed_values[T1] == [b"%d" % number for number in range(10)]


def test_another_source_under_the_same_name_is_refused(world: World) -> None:
    _, target = world
    with ReplayWriter(target, SOURCE, 1) as writer:
        writer.write(rows(0), 10)
    with (
        pytest.raises(ConfigError, match="take another name"),
        ReplayWriter(target, SourceIdentity("orders", "id-2"), 1),
    ):
        pass


def test_progress_has_the_last_witness_before_it(world: World) -> None:
    _, target = world
    first, second = (BatchWitness(end - 1, end, 0, end, 0, 2) for end in (4, 14))
    with ReplayWriter(target, SOURCE, 1, (first, second)) as writer:
        writer.write(rows(0), 10)
    assert witness_of(target) == (first,)
    with ReplayWriter(target, SOURCE, 1) as writer:
        writer.write(rows(10, 2), 12)
    assert witness_of(target) == (first,)
    with ReplayWriter(target, SOURCE, 1, (first, second)) as writer:
        writer.write(rows(12), 22)
    assert witness_of(target) == (second,)


def witness_of(target: ReplayTarget) -> Chain:
    with BrokerSession(target.bootstrap, {}) as session:
        found = session.run(lambda cluster: Admin(cluster).groups.list_offsets("r", [T1]))
    return committed_witness(found[T1])


@pytest.mark.parametrize("metadata", ["", "x", "[]", SOURCE.text(), '{"witness":[1]}'])
def test_progress_of_earlier_versions_has_no_witness(metadata: str) -> None:
    assert committed_witness(GroupOffset(5, -1, metadata)) == ()


def test_rows_come_from_arrow_with_milliseconds() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    batch = pa.RecordBatch.from_pylist(
        [
            {"key": None, "value": b"v", "partition": 0, "offset": 7, "timestamp": moment, "headers": None},
            {
                "key": b"k",
                "value": None,
                "partition": 0,
                "offset": 9,
                "timestamp": moment,
                "headers": [{"key": "a", "value": None}, {"key": "a", "value": b"x"}],
            },
        ],
        schema=arrow_schema(COLUMNS),
    )
    at = int(moment.timestamp() * 1000)
    assert rows_of_batch(batch) == [
        ReplayRow(7, None, b"v", (), at),
        ReplayRow(9, b"k", None, (("a", None), ("a", b"x")), at),
    ]


def test_transactions_have_the_wanted_size_and_reach_the_end() -> None:
    target = ReplayTarget(bootstrap="h:1", topic="t", name="r", transaction_records=10)
    groups = list(in_transactions([rows(0, 25), rows(30, 3)], target, 40))
    assert [(len(found), end) for found, end in groups] == [(10, 10), (10, 20), (8, 40)]
    assert list(in_transactions([], target, 40)) == [([], 40)]


def test_transactions_end_with_their_bytes_too() -> None:
    target = ReplayTarget(bootstrap="h:1", topic="t", name="r", transaction_records=10, transaction_bytes=100)
    large = [ReplayRow(offset, b"key", b"x" * 40, (("h", None),), 0) for offset in range(7)]
    assert large[0].size_bytes == 44
    groups = list(in_transactions([large], target, 7))
    assert [(len(found), end) for found, end in groups] == [(3, 3), (3, 6), (1, 7)]
