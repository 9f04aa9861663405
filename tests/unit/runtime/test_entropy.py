"""Cryptographic randomness."""

from __future__ import annotations

import random

from crabka.runtime.entropy import secure_random


def test_numbers_come_from_the_operating_system_and_do_not_repeat() -> None:
    rng = secure_random()
    assert isinstance(rng, random.SystemRandom)
    assert len({rng.getrandbits(128) for _ in range(100)}) == 100
