"""The list of differences that docs/COMPATIBILITY.md is made from."""

from __future__ import annotations

import re

from crabka.broker.api_table import SERVED
from crabka.broker.differences import DIFFERENCES
from crabka.protocol.apis import SPECS


def test_api_names_in_differences_are_served() -> None:
    served = {SPECS[key].name for key in SERVED}
    known = {spec.name for spec in SPECS.values()}
    named = {word for each in DIFFERENCES for word in re.findall(r"\b[A-Z]\w+\b", each.where) if word in known}
    assert named
    assert named <= served


def test_each_difference_says_what_kafka_does_and_what_happens_here() -> None:
    assert len({each.where for each in DIFFERENCES}) == len(DIFFERENCES)
    for each in DIFFERENCES:
        assert each.kafka != each.here
        assert not each.here.endswith(".")
