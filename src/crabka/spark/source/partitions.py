"""What Spark sends to its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from crabka.spark.plan.ranges import ReadPlan, Split
from crabka.spark.read.settings import ReadSettings

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Yield the rows of a partition that are wanted, with the columns named as Spark wants them; runs on executors.

    The settings may have more columns than there are names: those after them are for conditions alone.
    """
    from crabka.spark.read.row_filter import wanted_rows
    from crabka.spark.read.split_reader import read_split

    if not isinstance(partition, SplitPartition):
        return  # Spark's partition for a read that has none
    for batch in read_split(partition.split, replace(settings, tier_uri=partition.tier_uri)):
        rows = wanted_rows(batch, settings.options.where)
        if rows.num_columns > len(names):
            rows = rows.select(range(len(names)))
        yield rows if rows.schema.names == list(names) else rows.rename_columns(list(names))
