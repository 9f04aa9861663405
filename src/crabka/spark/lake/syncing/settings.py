"""The settings of a sync, checked."""

from __future__ import annotations

from dataclasses import dataclass, field

from crabka.errors import ConfigError
from crabka.spark.lake.syncing.rounds import RoundLimits
from crabka.spark.lake.values.schemas import DATE
from crabka.spark.lake.values.value_modes import RawValues, ValueDecoder

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """How a topic becomes a table."""

    decoder: ValueDecoder = field(default_factory=RawValues)
    # `date` for the day of the record's timestamp, or the name of a column.
    partition_by: str | None = None
    target_bytes: int = 128 * MIB
    round_bytes: int = 4096 * MIB
    min_tasks: int = 2

    def __post_init__(self) -> None:
        if self.target_bytes < 1 or self.round_bytes < 1:
            raise ConfigError("Sizes of files and rounds must be positive")

    @property
    def partition_column(self) -> str | None:
        """The column that the table is partitioned by."""
        return DATE if self.partition_by == "date" else self.partition_by

    @property
    def limits(self) -> RoundLimits:
        """How much goes into a commit and into a task; tasks are about as large as two files."""
        return RoundLimits(self.round_bytes, 2 * self.target_bytes, self.min_tasks)
