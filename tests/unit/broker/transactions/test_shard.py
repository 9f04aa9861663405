"""Batches of `__transaction_state` that are loaded."""

from __future__ import annotations

import pytest

from crabka.broker.transactions.records import transaction_key, transaction_pair
from crabka.broker.transactions.shard import TransactionShard, replay_transactions
from crabka.broker.transactions.transitions import new_snapshot
from crabka.records.builder import build_batch
from crabka.records.header import parse_header
from crabka.records.record import Record


def load(*pairs: tuple[bytes | None, bytes | None]) -> tuple[int, TransactionShard]:
    shard = TransactionShard()
    data = build_batch([Record(index, 0, key, value) for index, (key, value) in enumerate(pairs)])
    return replay_transactions(shard, memoryview(data), parse_header(data), 0), shard


def test_the_last_record_of_an_id_counts() -> None:
    pairs = [transaction_pair(name, new_snapshot(number, 1, 1), 2) for number, name in enumerate("aba")]
    count, shard = load(*pairs, (transaction_key("b"), None), (transaction_key("c"), None))
    assert count == 5
    assert {name: each.current.producer_id for name, each in shard.transactions.items()} == {"a": 2}


def test_what_cannot_be_read_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    good = transaction_pair("a", new_snapshot(1, 1, 1), 2)
    count, shard = load((b"\0\0", b"x"), (b"\0\7", b"x"), (None, b"x"), good)
    assert count == 4
    assert list(shard.transactions) == ["a"]
    assert "cannot be read" in caplog.text
    assert "unknown kind" in caplog.text
