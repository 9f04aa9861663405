"""What the bundle of ports does by itself."""

from __future__ import annotations

import random
from typing import Any, cast

from crabka.ports import Runtime


def runtime_with_seed(seed: int) -> Runtime:
    absent = cast("Any", None)
    return Runtime(clock=absent, rng=random.Random(seed), threads=absent, fs=absent, network=absent)


def test_uuids_are_version_4_and_differ() -> None:
    runtime = runtime_with_seed(1)
    first, second = runtime.new_uuid(), runtime.new_uuid()
    assert first.version == second.version == 4
    assert first != second


def test_the_same_seed_gives_the_same_uuids() -> None:
    assert runtime_with_seed(7).new_uuid() == runtime_with_seed(7).new_uuid()
