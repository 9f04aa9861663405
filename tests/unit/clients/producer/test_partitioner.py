"""Partitions as the Java producer chooses them."""

from __future__ import annotations

import random

import pytest

from crabka.clients.producer.partitioner import StickyPartitioner, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_values_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_key_partition_is_the_positive_hash_modulo_the_count() -> None:
    assert partition_for_key(b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10
    assert partition_for_key(b"", 1) == 0


def test_sticky_partition_stays_until_enough_bytes_and_then_changes() -> None:
    sticky = StickyPartitioner(random.Random(3), switch_after_bytes=100)
    chosen = [sticky.choose([0, 1, 2], 50) for _ in range(6)]
    assert chosen[0] == chosen[1] != chosen[2] == chosen[3] != chosen[4] == chosen[5]


def test_sticky_partition_is_left_when_it_loses_its_leader() -> None:
    sticky = StickyPartitioner(random.Random(3), switch_after_bytes=100)
    first = sticky.choose([0, 1], 1)
    assert sticky.choose([1 - first], 1) == 1 - first


def test_single_partition_is_always_chosen() -> None:
    sticky = StickyPartitioner(random.Random(3), switch_after_bytes=1)
    assert {sticky.choose([4], 9) for _ in range(5)} == {4}
