"""The hash of topics: what Apache Kafka 4.3.0 stored for the group of the golden directory."""

from __future__ import annotations

import uuid

from crabka.broker.groups.consumer.metadata_hash import NO_TOPICS, group_hash, topic_hash

PLAIN = uuid.UUID("79bac966-5a3f-43a0-8378-4480f1e489c0")
LOGAPPEND = uuid.UUID("c6adc2a5-417c-46e1-a8e7-a221cb6fdb4b")


def test_the_hash_is_kafkas() -> None:
    hashes = {
        "plain-logappend": topic_hash("plain-logappend", LOGAPPEND, [[]]),
        "plain": topic_hash("plain", PLAIN, [[], []]),
    }
    assert group_hash(hashes.items()) == 5737800907533982495


def test_no_topics_have_no_hash() -> None:
    assert group_hash(()) == NO_TOPICS


def test_partitions_and_racks_change_the_hash_and_the_order_of_racks_does_not() -> None:
    one = topic_hash("t", PLAIN, [["r", "s"]])
    assert one == topic_hash("t", PLAIN, [["s", "r"]])
    assert len({one, topic_hash("t", PLAIN, [["r"]]), topic_hash("t", PLAIN, [["r", "s"], []])}) == 3


def test_hashes_are_signed() -> None:
    found = [group_hash([("t", number)]) for number in range(20)]
    assert min(found) < 0 < max(found)
    assert all(-(1 << 63) <= each < 1 << 63 for each in found)
