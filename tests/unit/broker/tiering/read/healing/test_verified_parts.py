"""What was checked is remembered for a while, within bounds."""

from __future__ import annotations

import asyncio
import uuid

from crabka.broker.tiering.read.healing.verified_parts import MAX_PARTS, MAX_SEGMENTS, VerifiedParts
from crabka.testing import SimulatedClock, VirtualTimeLoop

TTL_MS = 1000


def test_parts_grow_together_and_grow_old() -> None:
    async def main() -> None:
        verified = VerifiedParts(SimulatedClock(loop), lambda: TTL_MS)
        parts = verified.of(uuid.UUID(int=1))
        verified.note(parts, 100, 200)
        assert not verified.covers(parts, 50, 150)
        verified.note(parts, 0, 100)
        assert verified.covers(parts, 0, 200)
        assert not verified.covers(parts, 0, 201)
        await asyncio.sleep(0.6)
        verified.note(parts, 200, 300)
        verified.note(parts, 500, 600)
        assert verified.covers(parts, 0, 300)
        await asyncio.sleep(0.6)
        assert not verified.covers(parts, 200, 300), "it goes with the oldest part of it"
        assert verified.covers(parts, 500, 600)

    loop = VirtualTimeLoop()
    loop.run(main())


def test_a_forgotten_segment_takes_no_more_notes() -> None:
    loop = VirtualTimeLoop()
    verified = VerifiedParts(SimulatedClock(loop), lambda: TTL_MS)
    parts = verified.of(uuid.UUID(int=1))
    verified.forget(uuid.UUID(int=1))
    verified.note(parts, 0, 100)
    assert not verified.covers(parts, 0, 100)
    assert not verified.covers(verified.of(uuid.UUID(int=1)), 0, 100)
    verified.forget(uuid.UUID(int=2))
    loop.close()


def test_both_numbers_are_bounded() -> None:
    loop = VirtualTimeLoop()
    verified = VerifiedParts(SimulatedClock(loop), lambda: TTL_MS)
    first = verified.of(uuid.UUID(int=0))
    for number in range(MAX_PARTS + 1):
        verified.note(first, 10 * number, 10 * number + 5)
    assert not verified.covers(first, 0, 5)
    assert verified.covers(first, 10, 15)
    for number in range(1, MAX_SEGMENTS + 1):
        verified.of(uuid.UUID(int=number))
    assert not verified.covers(first, 10, 15)
    loop.close()


def test_without_a_time_nothing_is_remembered() -> None:
    loop = VirtualTimeLoop()
    verified = VerifiedParts(SimulatedClock(loop), lambda: 0)
    parts = verified.of(uuid.UUID(int=1))
    verified.note(parts, 0, 100)
    assert not verified.covers(parts, 0, 100)
    loop.close()
