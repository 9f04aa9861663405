"""Cryptographic randomness, for secrets; everything else draws from the runtime's own generator."""

from __future__ import annotations

import random


def secure_random() -> random.Random:
    """Return a generator that takes every number from the operating system."""
    return random.SystemRandom()
