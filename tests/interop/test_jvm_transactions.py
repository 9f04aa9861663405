"""`kafka-transactions` lists, describes and aborts transactions of the node, and finds those that hang."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.clients.foreign_transactions import (
    READ_COMMITTED,
    REFUSED,
    ConfluentTransactions,
    last_stable_offset,
    read_settled,
    read_to_end,
)
from tests.support.clients.stray_transaction import LONG_AGO_MS, STRAY_PRODUCER_ID, leave_hanging
from tests.support.clients.target import target_node
from tests.support.kafka.oracle import ToolResult, run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker
    from tests.support.nodes.process import NodeProcess

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
]

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that believes producers, so that a transaction can be left hanging."""
    settings = {"transaction.partition.verification.enable": "false"}
    with target_node(tmp_path_factory.mktemp("tool"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def broker_id(admin: AdminClient) -> str:
    """Id of the only broker."""
    (broker,) = admin.list_topics(timeout=120).brokers
    return str(broker)


def _tool(bootstrap: str, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(TRANSACTIONS, "--bootstrap-server", bootstrap, *arguments, check=check)


def _table(shown: ToolResult) -> list[dict[str, str]]:
    """The rows of a printed table by the names of its columns."""
    head, *rows = (line.split("\t") for line in shown.lines)
    names = [name.strip() for name in head]
    return [dict(zip(names, (cell.strip() for cell in row), strict=False)) for row in rows]


def test_list_shows_transactions_by_state_age_and_pattern(
    bootstrap: str, make_topic: TopicMaker, broker_id: str
) -> None:
    topic = make_topic()
    idle = ConfluentTransactions(bootstrap, "list-idle")
    busy = ConfluentTransactions(bootstrap, "list-busy")
    busy.begin()
    busy.send(topic, 0, b"open")
    listed = {row["TransactionalId"]: row for row in _table(_tool(bootstrap, "list"))}
    assert {name: listed[name]["TransactionState"] for name in ("list-idle", "list-busy")} == {
        "list-idle": "Empty",
        "list-busy": "Ongoing",
    }
    assert listed["list-busy"]["Coordinator"] == broker_id
    assert listed["list-busy"]["ProducerId"] != listed["list-idle"]["ProducerId"]
    by_pattern = _table(_tool(bootstrap, "list", "--transactional-id-pattern", "list-.*y"))
    assert [row["TransactionalId"] for row in by_pattern] == ["list-busy"]
    older = {
        limit: {row["TransactionalId"] for row in _table(_tool(bootstrap, "list", "--duration-filter", limit))}
        for limit in ("1", "3600000")
    }
    # What never began counts as begun before all time.
    assert {"list-idle", "list-busy"} <= older["1"]
    assert older["3600000"] & {"list-idle", "list-busy"} == {"list-idle"}
    busy.abort()
    idle.close()
    busy.close()


def test_describe_reports_state_timeout_and_partitions(bootstrap: str, make_topic: TopicMaker, broker_id: str) -> None:
    topic = make_topic(2)
    producer = ConfluentTransactions(bootstrap, "described", 45_000)
    begun_ms = time.time_ns() // 1_000_000
    producer.begin()
    producer.send(topic, 0, b"open")
    producer.send(topic, 1, b"open")
    (row,) = _table(_tool(bootstrap, "describe", "--transactional-id", "described"))
    assert row["CoordinatorId"] == broker_id
    assert (row["TransactionState"], row["TransactionTimeoutMs"]) == ("Ongoing", "45000")
    assert int(row["ProducerEpoch"]) >= 0
    assert int(row["CurrentTransactionStartTimeMs"]) >= begun_ms
    assert sorted(row["TopicPartitions"].split(",")) == [f"{topic}-0", f"{topic}-1"]
    producer.commit()
    ConfluentTransactions(bootstrap, "described").close()
    (row,) = _table(_tool(bootstrap, "describe", "--transactional-id", "described"))
    assert (row["TransactionState"], row["CurrentTransactionStartTimeMs"], row["TopicPartitions"]) == (
        "Empty",
        "None",
        "",
    )
    producer.close()


def test_describe_says_when_there_is_no_such_id(bootstrap: str) -> None:
    missing = _tool(bootstrap, "describe", "--transactional-id", "missing", check=False)
    assert missing.code == 1
    assert "Failed to describe transaction state of transactional-id `missing`" in missing.stderr


def test_describe_producers_reports_epoch_sequence_and_open_transaction(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    producer = ConfluentTransactions(bootstrap, "producing")
    describe = partial(_tool, bootstrap, "describe-producers", "--topic", topic, "--partition", "0")
    for value in (b"a", b"b"):
        producer.begin()
        producer.send(topic, 0, value)
        (row,) = _table(describe())
        (described,) = _table(_tool(bootstrap, "describe", "--transactional-id", "producing"))
        assert row["ProducerId"] == described["ProducerId"]
        assert row["ProducerEpoch"] == described["ProducerEpoch"]
        assert row["CurrentTransactionStartOffset"] == {b"a": "0", b"b": "2"}[value]
        assert row["LatestCoordinatorEpoch"] == {b"a": "-1", b"b": "0"}[value]
        producer.commit()
    assert int(row["LastSequence"]) >= 0
    ConfluentTransactions(bootstrap, "producing").close()
    (row,) = _table(describe())
    assert row["CurrentTransactionStartOffset"] == "None"
    producer.close()


def test_find_hanging_finds_what_no_coordinator_knows_and_abort_ends_it(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, broker_id: str
) -> None:
    topic = make_topic()
    leave_hanging(bootstrap, topic)
    assert last_stable_offset(admin, topic) == 0
    for scope in (["--topic", topic], ["--broker-id", broker_id]):
        (row,) = _table(_tool(bootstrap, "find-hanging", *scope))
        assert (row["Topic"], row["Partition"], row["StartOffset"]) == (topic, "0", "0")
        assert (row["ProducerId"], row["LastTimestamp"]) == (str(STRAY_PRODUCER_ID), str(LONG_AGO_MS))
    where = ["--topic", topic, "--partition", "0", "--start-offset"]
    wrong = _tool(bootstrap, "abort", *where, "5", check=False)
    assert wrong.code == 1
    assert "Could not find any open transactions starting at offset 5" in wrong.stderr
    _tool(bootstrap, "abort", *where, "0")
    assert read_settled(admin, bootstrap, topic) == [[]]
    assert _table(_tool(bootstrap, "find-hanging", "--topic", topic)) == []


def test_a_transaction_that_its_coordinator_knows_does_not_hang(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    producer = ConfluentTransactions(bootstrap, "known")
    producer.begin()
    producer.send(topic, 0, b"open")
    scope = ["--topic", topic, "--max-transaction-timeout", "0"]
    assert _table(_tool(bootstrap, "find-hanging", *scope)) == []
    producer.abort()
    producer.close()


def test_force_terminate_ends_a_transaction_and_fences_its_producer(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient
) -> None:
    topic = make_topic()
    producer = ConfluentTransactions(bootstrap, "terminated")
    producer.begin()
    producer.send(topic, 0, b"open")
    assert read_to_end(bootstrap, topic, 1, READ_COMMITTED) == [[]]
    _tool(bootstrap, "forceTerminateTransaction", "--transactionalId", "terminated")
    assert read_settled(admin, bootstrap, topic) == [[]]
    with pytest.raises(REFUSED):
        producer.commit()
    producer.close()
