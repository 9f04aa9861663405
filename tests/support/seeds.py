"""Seeds of randomized tests: fixed in a normal run, fresh in a soak, always printed, replayable by `CRABKA_SEED`."""

from __future__ import annotations

import os
import random
import secrets
import zlib

from tests.support.scale import soaking

SEED_VARIABLE = "CRABKA_SEED"
NORMAL_SEED = 20_260


def base_seed() -> int:
    """Return the seed of this run, and put it in the environment so that worker processes share it."""
    text = os.environ.get(SEED_VARIABLE)
    seed = int(text) if text else (secrets.randbits(32) if soaking() else NORMAL_SEED)
    os.environ[SEED_VARIABLE] = str(seed)
    return seed


def rng_for(test_name: str) -> random.Random:
    """Return the random numbers of one test: they depend on the seed of the run and on its name, not on other tests."""
    return random.Random(base_seed() ^ zlib.crc32(test_name.encode()))


def replay_hint(test_name: str) -> str:
    """Return the command that repeats a test with the same random numbers."""
    return f"{SEED_VARIABLE}={base_seed()} pytest '{test_name}'"
