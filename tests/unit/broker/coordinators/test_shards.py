"""Which partition keeps what."""

from __future__ import annotations

import pytest

from crabka.broker.coordinators.shards import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("a", 97), ("ab", 3105), ("polygenelubricants", -(2**31)), ("\U0001f980", 1772802)]
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("group-classic", 1), ("group-consumer", 1), ("group-txn", 1), ("group-simple", 2), ("group-share", 0)],
)
def test_groups_lie_where_kafka_put_them(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 3) == partition


def test_the_lowest_hash_has_no_absolute_value() -> None:
    assert partition_for("polygenelubricants", 50) == 0
