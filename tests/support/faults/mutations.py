"""Frames that no honest client sends: recorded requests with flipped bits, cuts and lies, and pure inventions."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from tests.support.recorded.wire_frames import recorded_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# One flipped bit of a partition count asks for thousands of partitions, which is legal and would only measure that.
_GROWING = {19, 37}
_HUGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f", b"\x7f\xff")


def mutated_frames(rng: random.Random, count: int) -> Iterator[bytes]:
    """So many frames with their length prefix, ready to be written to a socket."""
    seeds = [frame.payload for frame in recorded_frames() if frame.is_request and frame.api_key not in _GROWING]
    makers: list[Callable[[random.Random, bytes], bytes]] = [_flip, _flip, _cut, _grow, _splice, _length_lie, _invent]
    for _ in range(count):
        yield rng.choice(makers)(rng, rng.choice(seeds))


def _framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _flip(rng: random.Random, payload: bytes) -> bytes:
    changed = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return _framed(bytes(changed))


def _cut(rng: random.Random, payload: bytes) -> bytes:
    return _framed(payload[: rng.randrange(len(payload))])


def _grow(rng: random.Random, payload: bytes) -> bytes:
    """Overwrite a place with a huge length."""
    position = rng.randrange(8, max(9, len(payload)))
    lie = rng.choice(_HUGE)
    return _framed(payload[:position] + lie + payload[position + len(lie) :])


def _splice(rng: random.Random, payload: bytes) -> bytes:
    position = rng.randrange(8, max(9, len(payload)))
    return _framed(payload[:position] + rng.randbytes(rng.randrange(1, 40)) + payload[position:])


def _length_lie(rng: random.Random, payload: bytes) -> bytes:
    claimed = rng.choice((-1, -(2**31), 0, 1, 3, len(payload) + 1, len(payload) // 2, 104857601, 2**31 - 1))
    return struct.pack(">i", claimed) + payload


def _invent(rng: random.Random, _payload: bytes) -> bytes:
    header = struct.pack(">hhih", rng.randrange(-5, 100), rng.randrange(-2, 20), rng.getrandbits(31), -1)
    return _framed(header + rng.randbytes(rng.randrange(120)))
