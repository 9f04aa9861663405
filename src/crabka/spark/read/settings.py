"""What a task has to know beside its split; made on the driver, sent to executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crabka.spark.decode import spark_schema_columns
from crabka.spark.source.options import SourceOptions


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The options, the columns in their order, and where the tier is, if the driver had to ask for that."""

    options: SourceOptions
    columns: tuple[str, ...]
    tier_uri: str | None = None

    @classmethod
    def of(
        cls, options: SourceOptions, columns: Sequence[str] | None = None, tier_uri: str | None = None
    ) -> ReadSettings:
        """Return settings for some columns; for those that the options imply if none are given."""
        if columns is None:
            columns = [name for name in spark_schema_columns() if name != "headers" or options.include_headers]
        return cls(options, tuple(columns), tier_uri)
