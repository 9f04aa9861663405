"""How often and how fast the files of a node are checked, out of its config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig

# The first check begins so long after the start, or after the interval if that is shorter.
FIRST_PASS_MS: Final = 10 * 60 * 1000


class ScrubSettings(NamedTuple):
    """The settings that checks go by, read anew for each step."""

    is_enabled: bool = True
    interval_ms: int = 7 * 24 * 60 * 60 * 1000
    max_bytes_per_second: int = 8 * 1024 * 1024
    max_cpu_percent: int = 5
    # A pass begins when it changes.
    trigger: str = ""

    @classmethod
    def from_config(cls, config: ServerConfig) -> ScrubSettings:
        """Take the settings out of a node's config."""
        return cls(
            is_enabled=config.crabka_log_scrub_enable,
            interval_ms=config.crabka_log_scrub_interval_ms,
            max_bytes_per_second=config.crabka_log_scrub_max_bytes_per_second,
            max_cpu_percent=config.crabka_log_scrub_max_cpu_percent,
            trigger=config.crabka_log_scrub_now,
        )
