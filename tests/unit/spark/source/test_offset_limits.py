from __future__ import annotations

from crabka.ids import TopicPartition
from crabka.spark.source.offset_limits import EarliestLimit, GlobalTimestampLimit, LatestLimit, OffsetsLimit


def test_limits_are_values() -> None:
    assert EarliestLimit() == EarliestLimit()
    assert EarliestLimit() != LatestLimit()
    assert OffsetsLimit({TopicPartition("t", 0): 1}) == OffsetsLimit({TopicPartition("t", 0): 1})
    assert GlobalTimestampLimit(1) != GlobalTimestampLimit(2)
