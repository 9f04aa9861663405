from __future__ import annotations

from crabka.ids import TopicPartition
from crabka.spark.source.offset_limits import (
    EarliestLimit,
    GlobalTimestampLimit,
    LatestLimit,
    OffsetLimit,
    OffsetsLimit,
)


def test_limits_are_values() -> None:
    assert EarliestLimit() == EarliestLimit()
    limits: set[OffsetLimit] = {EarliestLimit(), LatestLimit(), LatestLimit()}
    assert len(limits) == 2
    assert OffsetsLimit({TopicPartition("t", 0): 1}) == OffsetsLimit({TopicPartition("t", 0): 1})
    assert GlobalTimestampLimit(1) != GlobalTimestampLimit(2)
