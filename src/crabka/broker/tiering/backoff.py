"""How long a task of a partition rests after failures: longer and longer, never all at the same moment. PURE."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from crabka.config.server import ServerConfig

_DOUBLINGS = 30


class TaskBackoff:
    """Pauses after failures in a row, by `remote.log.manager.task.retry.*`."""

    __slots__ = ("_config", "_failures", "_rng")

    def __init__(self, config: Callable[[], ServerConfig], rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._failures = 0

    def reset(self) -> None:
        """Begin anew after a success."""
        self._failures = 0

    def next_ms(self) -> float:
        """Count a failure and return how long to rest."""
        config = self._config()
        longest_ms = config.remote_log_manager_task_retry_backoff_max_ms
        pause_ms = min(config.remote_log_manager_task_retry_backoff_ms << min(self._failures, _DOUBLINGS), longest_ms)
        self._failures += 1
        jitter = config.remote_log_manager_task_retry_jitter
        return min(pause_ms * self._rng.uniform(1 - jitter, 1 + jitter), longest_ms)
