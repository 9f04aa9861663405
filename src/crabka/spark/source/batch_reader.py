"""The reader of batch queries, and the partitions that Spark sends to tasks.

It takes no filters from Spark, which keeps a source's answer to them for all queries on the same frame: see
`crabka.spark.options.where`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from crabka.spark.plan.planner import plan_read
from crabka.spark.plan.ranges import ReadPlan, Split
from crabka.spark.read.split_reader import ReadSettings, read_split

if TYPE_CHECKING:
    import pyarrow as pa

    from crabka.spark.options.source_options import SourceOptions


class CrabkaBatchReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], names: tuple[str, ...]) -> None:
        """`names` are what the schema calls the columns."""
        self._settings = ReadSettings.of(options, columns)
        self._names = names

    def partitions(self) -> list[InputPartition]:
        """Return the splits of the read."""
        return partitions_of(plan_read(self._settings.options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        return read_partition(partition, self._settings, self._names)


class SplitPartition(InputPartition):
    """A split, and where the tier is if the driver had to ask for it."""

    def __init__(self, split: Split, tier_uri: str | None) -> None:
        super().__init__(split)
        self.split = split
        self.tier_uri = tier_uri


def partitions_of(plan: ReadPlan) -> list[InputPartition]:
    """Return one partition per split."""
    return [SplitPartition(split, plan.tier_uri) for split in plan.splits]


def read_partition(
    partition: InputPartition, settings: ReadSettings, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, with the columns named as Spark wants them. Runs on executors."""
    if not isinstance(partition, SplitPartition):
        return  # Spark's partition for a read that has none
    for batch in read_split(partition.split, replace(settings, tier_uri=partition.tier_uri)):
        yield batch if batch.schema.names == list(names) else batch.rename_columns(list(names))
