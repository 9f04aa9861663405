from __future__ import annotations

import json

from crabka.spark.plan.ranges import BrokerRange, Split, TierRange
from tests.support.pickling import sent

SPLIT = Split(
    (
        TierRange("t", "id", 0, 5, 9, "o", 10, 30, ((7, 5, 8),)),
        TierRange("t", "id", 0, 9, 12, "p", 0, 30),
        BrokerRange("t", None, 1, 0, 3),
    )
)


def test_splits_travel_as_json_and_as_pickles() -> None:
    assert Split.from_json(json.loads(json.dumps(SPLIT.as_json()))) == SPLIT
    assert sent(SPLIT) == SPLIT


def test_a_range_knows_its_size() -> None:
    first = SPLIT.ranges[0]
    assert isinstance(first, TierRange)
    assert first.size_bytes == 20
