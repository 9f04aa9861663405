"""Values as they arrive in another process."""

from __future__ import annotations

import pickle
from typing import TypeVar

T = TypeVar("T")


def sent(value: T) -> T:
    """Return what a worker gets when a value is sent to it."""
    received: T = pickle.loads(pickle.dumps(value))  # noqa: S301 - made here
    return received
