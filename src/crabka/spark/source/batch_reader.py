"""The reader of batch queries.

It takes no filters from Spark, which keeps a source's answer to them for all queries on the same frame: `where_option`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from crabka.spark.plan.planner import plan_read
from crabka.spark.read.settings import ReadSettings
from crabka.spark.source.partitions import partitions_of, read_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from crabka.spark.source.options import SourceOptions


class CrabkaBatchReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], names: tuple[str, ...]) -> None:
        """`names` are what the schema calls the columns."""
        from crabka.spark.read.row_filter import columns_to_decode

        self._settings = ReadSettings.of(options, columns_to_decode(columns, options.where))
        self._names = names

    def partitions(self) -> list[InputPartition]:
        """Return the splits of the read."""
        return partitions_of(plan_read(self._settings.options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        return read_partition(partition, self._settings, self._names)
