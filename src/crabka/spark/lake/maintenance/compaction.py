"""Merges small files of a table.

Files of different partitions stay apart. A file that is nearly as large as files should be is left alone, so that a
table that was compacted is not compacted again. Syncs that commit meanwhile do not disturb: what was merged takes the
place of the same files in the table as it is by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import uuid4

import pyarrow as pa

from crabka.spark.lake.errors import CommitConflictError
from crabka.spark.lake.formats.data_files import DataFile, file_name, partition_directory
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.parquet_reading import read_batches
from crabka.spark.lake.formats.row_groups import row_groups
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import TableFiles
from crabka.spark.lake.values.rows import topic_partition_in
from crabka.spark.lake.values.schemas import conform

_SMALL_SHARE = 0.75
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction replaced."""

    files_removed: int = 0
    files_added: int = 0


def compact_once(table: TableFiles, target_bytes: int, tries: int = 5) -> Compaction:
    """Compact the table as it is now; retries if others compacted it meanwhile. Raises CommitConflictError at last."""
    for _attempt in range(1, tries):
        table.refresh()
        try:
            return compact_table(table, target_bytes)
        except CommitConflictError:
            continue
    table.refresh()
    return compact_table(table, target_bytes)


def compact_table(table: TableFiles, target_bytes: int) -> Compaction:
    """Merge files that are smaller than they should be. Raises CommitConflictError if another writer replaced them."""
    spec, groups = table.spec, compaction_groups(table.files(), target_bytes)
    if not groups:
        return Compaction()
    hidden = None if table.stores_partition_column else spec.partition_column
    schema = pa.schema([field for field in spec.schema if field.name != hidden])
    merged = [merge_files(table.store, group, schema, spec.partition_column) for group in groups]
    replaced = [file for group in groups for file in group]
    _replace(table, replaced, merged)
    return Compaction(len(replaced), len(merged))


def _replace(table: TableFiles, replaced: Sequence[DataFile], merged: Sequence[DataFile]) -> None:
    for attempt in range(1, _TRIES + 1):
        try:
            table.replace(replaced, merged)
        except CommitConflictError:
            table.refresh()
            live = {file.path for file in table.files()}
            if merged[0].path in live:
                return  # it was committed, only the answer was lost
            if attempt == _TRIES or not {file.path for file in replaced} <= live:
                raise
        else:
            return


def compaction_groups(files: Iterable[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """Return groups of at least two small files, each group of one partition and not much larger than the target."""
    by_partition: dict[str | None, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.size_bytes < target_bytes * _SMALL_SHARE:
            by_partition[file.partition_value].append(file)
    groups: list[list[DataFile]] = []
    for small in by_partition.values():
        group: list[DataFile] = []
        for file in sorted(small, key=lambda file: (file.offsets.least if file.offsets else 0, file.path)):
            if group and sum(member.size_bytes for member in group) + file.size_bytes > target_bytes:
                groups.append(group)
                group = []
            group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def merge_files(store: LakeStore, group: Sequence[DataFile], schema: pa.Schema, column: str | None) -> DataFile:
    """Write the rows of some files into a new one and return it."""
    value = group[0].partition_value
    first_offset = min((file.offsets.least for file in group if file.offsets), default=0)
    groups = row_groups(conform(batch, schema) for file in group for batch in read_batches(store, file.path))
    first = next(groups, schema.empty_table())
    partition = topic_partition_in(first, column, value)
    path = file_name(partition_directory(column, value), first_offset, partition, f"merged-{uuid4()}")
    writer = ParquetFileWriter(store, path, schema, partition_value=value)
    try:
        for rows in chain([first], groups):
            writer.write(rows)
        return writer.close()
    except BaseException:
        writer.give_up()
        raise
