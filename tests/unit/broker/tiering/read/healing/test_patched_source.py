"""Corrected bytes lie over damaged ones, whichever way they are read."""

from __future__ import annotations

from crabka.broker.tiering.read.deadline import Deadline
from crabka.broker.tiering.read.healing.patched_source import PatchedSource
from crabka.broker.tiering.read.healing.segment_walk import DamagedStretch
from tests.support.async_tests import run_with, virtual_time
from tests.support.tiers.bytes_source import BytesSource

DATA = bytes(range(100))
PATCHES = [DamagedStretch(10, 15, 0, 1, "", b"\xff" * 5), DamagedStretch(40, 42, 4, 5, "", b"\xfe" * 2)]
RIGHT = DATA[:10] + b"\xff" * 5 + DATA[15:40] + b"\xfe" * 2 + DATA[42:]


@run_with(virtual_time)
async def test_every_range_is_patched() -> None:
    base = BytesSource(DATA)
    source = PatchedSource(base, PATCHES)
    assert source.size == 100
    assert source.peek(10, 0) is None
    assert await source.load(100, 0, Deadline(0)) == 100
    for start in range(60):
        for end in range(start + 1, 60):
            assert source.peek(end - start, start) == RIGHT[start:end]
            assert source.read(end - start, start) == RIGHT[start:end]
            pieces = source.payloads(end - start, start)
            assert b"".join(pieces) == RIGHT[start:end]  # type: ignore[arg-type]


@run_with(virtual_time)
async def test_what_has_no_patch_is_not_copied() -> None:
    source = PatchedSource(BytesSource(DATA), PATCHES)
    await source.load(100, 0, Deadline(0))
    found = source.peek(10, 50)
    assert isinstance(found, memoryview)
    assert found.obj is DATA
