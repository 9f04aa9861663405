"""Bit sets of operations, as Kafka answers without an authorizer."""

from __future__ import annotations

from crabka.serving.authorized_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
    UNASKED_OPERATIONS,
)


def test_the_bits_are_kafkas() -> None:
    assert (TOPIC_OPERATIONS, GROUP_OPERATIONS, CLUSTER_OPERATIONS) == (0b110111111000, 0b110101001000, 0b1111110100000)
    assert UNASKED_OPERATIONS == -(2**31)
