"""The pause before a retry: exponential with jitter, as Kafka's clients do (KIP-580)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

JITTER = 0.2


@dataclass(slots=True)
class Backoff:
    """Counts attempts; `next_ms` grows up to a limit, `reset` starts over after a success."""

    rng: random.Random
    initial_ms: int = 50
    max_ms: int = 1_000
    _attempts: int = 0

    def next_ms(self) -> int:
        """Return the next pause."""
        base = min(self.initial_ms << min(self._attempts, 20), self.max_ms)
        self._attempts += 1
        return max(1, round(base * self.rng.uniform(1 - JITTER, 1 + JITTER)))

    def reset(self) -> None:
        """Start over."""
        self._attempts = 0
