"""Records of `__transaction_state`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.broker.transactions.records import by_topic, decode_transaction, transaction_key, transaction_pair
from crabka.broker.transactions.state import TransactionSnapshot, TransactionState
from crabka.broker.transactions.transitions import new_snapshot
from crabka.errors import WireError
from crabka.ids import TopicPartition

FULL = TransactionSnapshot(
    producer_id=5,
    previous_producer_id=4,
    next_producer_id=6,
    producer_epoch=32767,
    timeout_ms=1000,
    state=TransactionState.PREPARE_COMMIT,
    partitions=(TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("b", 2)),
    start_timestamp_ms=10,
    last_update_timestamp_ms=20,
    client_transaction_version=2,
)


@pytest.mark.parametrize("version", [1, 2])
def test_everything_is_kept_but_the_last_epoch(version: int) -> None:
    key, value = transaction_pair("id", replace(FULL, last_producer_epoch=3), version)
    assert value is not None
    assert value[:2] == b"\0\1"
    assert decode_transaction(key, value) == ("id", FULL)


def test_version_0_keeps_no_other_ids() -> None:
    key, value = transaction_pair("id", FULL, 0)
    kept = replace(FULL, previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0)
    assert decode_transaction(key, value) == ("id", kept)


def test_a_dead_id_is_a_tombstone() -> None:
    pair = transaction_pair("id", new_snapshot(1, 1, 1).follow(TransactionState.DEAD), 2)
    assert pair == (transaction_key("id"), None)
    assert decode_transaction(*pair) == ("id", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0", None),
        (transaction_key("id")[:-1], None),
        (transaction_key("id"), b"\0"),
        (transaction_key("id"), b"\0\2"),
        (transaction_key("id"), b"\0\1\0"),
    ],
)
def test_malformed_records_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(WireError):
        decode_transaction(key, value)


def test_an_unknown_state_is_refused() -> None:
    key, value = transaction_pair("id", FULL, 0)
    assert value is not None
    with pytest.raises(WireError, match="unknown state"):
        decode_transaction(key, value[:16] + b"\x63" + value[17:])


def test_an_unknown_kind_of_record_is_left_alone() -> None:
    assert decode_transaction(b"\0\7x", b"") is None


def test_partitions_are_grouped_in_their_order() -> None:
    assert by_topic(FULL.partitions) == {"a": [1, 0], "b": [2]}
