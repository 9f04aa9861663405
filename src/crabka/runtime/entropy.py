"""Chance that nobody can guess, for what must be secret; everything else draws from the runtime's own generator."""

from __future__ import annotations

import random


def secure_random() -> random.Random:
    """Return a generator that asks the operating system for every number."""
    return random.SystemRandom()
