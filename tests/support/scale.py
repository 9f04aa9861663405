"""How much work a test does: little in `make test`, much in `make soak`."""

from __future__ import annotations

import os


def soaking() -> bool:
    """Whether the long variants were asked for (`CRABKA_SOAK=1`)."""
    return os.environ.get("CRABKA_SOAK") == "1"


def scaled(small: int, soak: int) -> int:
    """The first number in a normal run, the second in a soak run."""
    return soak if soaking() else small
