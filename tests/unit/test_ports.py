from __future__ import annotations

import random

from crabka.ports import Runtime
from crabka.runtime import AsyncioNetwork, SystemClock, ThreadPool
from crabka.vfs import OsFileSystem


def runtime(seed: int) -> Runtime:
    return Runtime(SystemClock(), random.Random(seed), ThreadPool(1), OsFileSystem(), AsyncioNetwork())


def test_uuids_are_repeatable_by_seed() -> None:
    first, second = runtime(1), runtime(1)
    uuids = [first.new_uuid() for _ in range(10)]
    assert uuids == [second.new_uuid() for _ in range(10)]
    assert len(set(uuids)) == 10
    assert runtime(2).new_uuid() not in uuids


def test_uuids_are_random_version_4() -> None:
    node = runtime(3)
    for _ in range(20):
        value = node.new_uuid()
        assert value.version == 4
        assert value.variant == "specified in RFC 4122"
