"""Transactions that Apache Kafka 4.3.0 left behind in `__transaction_state`: what they mean, and each byte of them.

Every record is written once more by the core, which gets the request that must have caused it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from crabka.broker.coordinators.shards import partition_for
from crabka.broker.transactions.messages import (
    AddPartitions,
    CheckExpiry,
    CheckTimeout,
    EndTransaction,
    Event,
    InitProducer,
    MarkersWritten,
    ProducerAndEpoch,
    Resume,
    SendMarkers,
    StoreSnapshot,
)
from crabka.broker.transactions.records import decode_transaction, transaction_pair
from crabka.broker.transactions.shard import TRANSACTIONS_TOPIC, TransactionShard, replay_transactions
from crabka.broker.transactions.state import TransactionSnapshot, TransactionState
from crabka.broker.transactions.transaction import Transaction
from crabka.broker.transactions.transitions import new_snapshot
from crabka.records.header import iter_headers
from crabka.records.record import decode_records
from tests.support.recorded.files import GOLDEN

SINGLE = GOLDEN / "single"
CAPTURED_MS = 1_794_773_800_000
EXPIRATION_MS = 7 * 24 * 3_600_000
PARTITION_COUNT = 3
SERVER_VERSION = 2
IDS = (
    "java-a-compacted-txn",
    "java-a-tiered-txn",
    "java-a-txn",
    "java-c-compacted-txn",
    "java-c-tiered-txn",
    "java-c-txn",
    "open-java",
    "open-tiered",
    "rd-a-txn",
    "rd-c-txn",
)


@cache
def expected() -> dict[str, dict[str, Any]]:
    transactions: dict[str, dict[str, Any]] = json.loads((SINGLE / "expected.json").read_text())["transactions"]
    return transactions


def segments(transactional_id: str) -> list[Path]:
    index = partition_for(transactional_id, PARTITION_COUNT)
    (directory,) = SINGLE.glob(f"d?/{TRANSACTIONS_TOPIC}-{index}")
    return sorted(directory.glob("*.log"))


def loaded(transactional_id: str) -> Transaction:
    shard = TransactionShard()
    for path in segments(transactional_id):
        view = memoryview(path.read_bytes())
        for position, header in iter_headers(view):
            replay_transactions(shard, view[position : position + header.size_in_bytes], header, CAPTURED_MS)
    return shard.transactions[transactional_id]


def records(transactional_id: str) -> list[tuple[bytes, bytes | None]]:
    found = []
    for path in segments(transactional_id):
        view = memoryview(path.read_bytes())
        for position, header in iter_headers(view):
            for record in decode_records(view[position : position + header.size_in_bytes], header):
                assert record.key is not None
                stored = decode_transaction(record.key, record.value)
                if stored is not None and stored[0] == transactional_id:
                    found.append((bytes(record.key), record.value))
    return found


def test_all_ids_are_known() -> None:
    assert set(expected()) == set(IDS)


@pytest.mark.parametrize("transactional_id", IDS)
def test_state_and_producer_are_kafkas(transactional_id: str) -> None:
    current, reported = loaded(transactional_id).current, expected()[transactional_id]
    assert {
        "partitions": [str(place) for place in current.partitions],
        "producer_epoch": current.producer_epoch,
        "producer_id": current.producer_id,
        "start_ms": current.start_timestamp_ms,
        "state": current.state.value,
        "timeout_ms": current.timeout_ms,
    } == reported


@pytest.mark.parametrize("transactional_id", IDS)
def test_at_the_time_of_the_capture_nothing_is_left_to_do(transactional_id: str) -> None:
    transaction = loaded(transactional_id)
    events = (Resume(), CheckTimeout(server_version=SERVER_VERSION), CheckExpiry(expiration_ms=EXPIRATION_MS))
    assert [transaction.step(event, CAPTURED_MS) for event in events] == [[], [], []]


@pytest.mark.parametrize("transactional_id", ["open-java", "open-tiered"])
def test_open_transactions_are_aborted_when_their_time_is_over(transactional_id: str) -> None:
    transaction = loaded(transactional_id)
    (action,) = transaction.step(CheckTimeout(server_version=SERVER_VERSION), CAPTURED_MS + 900_000)
    assert isinstance(action, StoreSnapshot)
    assert action.snapshot.state is TransactionState.PREPARE_ABORT
    assert any(isinstance(each, SendMarkers) for each in transaction.step(action.done, CAPTURED_MS + 900_000))


@pytest.mark.parametrize("transactional_id", [each for each in IDS if not each.startswith("open")])
def test_unused_ids_expire_a_week_later(transactional_id: str) -> None:
    (action,) = loaded(transactional_id).step(CheckExpiry(expiration_ms=EXPIRATION_MS), CAPTURED_MS + EXPIRATION_MS)
    assert isinstance(action, StoreSnapshot)
    assert action.snapshot.state is TransactionState.DEAD


def cause_of(before: TransactionSnapshot, after: TransactionSnapshot) -> Event:
    """Return the event that led from one snapshot to the next."""
    producer = ProducerAndEpoch(before.producer_id, before.producer_epoch)
    match after.state:
        case TransactionState.EMPTY:
            return InitProducer(reply=None, timeout_ms=after.timeout_ms, server_version=SERVER_VERSION)
        case TransactionState.ONGOING:
            return AddPartitions(
                reply=None,
                producer=producer,
                partitions=after.partitions[len(before.partitions) :],
                client_version=after.client_transaction_version,
            )
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            return EndTransaction(
                reply=None,
                producer=producer,
                commit=after.state is TransactionState.PREPARE_COMMIT,
                client_version=after.client_transaction_version,
            )
        case _:
            return MarkersWritten(producer)


@pytest.mark.parametrize("transactional_id", IDS)
def test_every_record_is_written_byte_for_byte(transactional_id: str) -> None:
    pairs = records(transactional_id)
    stored = decode_transaction(*pairs[0])
    assert stored is not None
    assert stored[1] is not None
    first = stored[1]
    transaction = Transaction(
        transactional_id, new_snapshot(first.producer_id, first.timeout_ms, first.last_update_timestamp_ms)
    )
    for pair in pairs:
        stored = decode_transaction(*pair)
        assert stored is not None
        assert stored[1] is not None
        now_ms = stored[1].last_update_timestamp_ms
        (action,) = transaction.step(cause_of(transaction.current, stored[1]), now_ms)
        assert isinstance(action, StoreSnapshot)
        assert transaction_pair(transactional_id, action.snapshot, SERVER_VERSION) == pair
        transaction.step(action.done, now_ms)
    assert len(pairs) >= 2
