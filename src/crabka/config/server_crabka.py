"""Settings that only Crabka has; Kafka has no counterpart."""

from __future__ import annotations

from dataclasses import dataclass

from crabka.config.keys import boolean

CRABKA_KEYS = (
    boolean(
        "crabka.validate.records",
        "Look into every batch that is produced, not only into its header, and refuse malformed records.",
        default=False,
    ),
)


@dataclass(frozen=True, kw_only=True)
class CrabkaSettings:
    """Parsed values of the keys above; a field is named as its key."""

    crabka_validate_records: bool
