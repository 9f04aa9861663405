"""Reads Parquet files of tables, one row group after the other, and from an object store only the wanted parts.

No more than the wanted columns of one row group are in memory; they come in one request as far as they lie together.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from crabka.remote.backends.bucket import Bucket
from crabka.spark.lake.formats.data_files import ColumnRange
from crabka.spark.lake.formats.store import LakeStore


def read_batches(
    store: LakeStore, path: str, columns: list[str] | None = None, *, within: Mapping[str, ColumnRange] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a file of a table, without row groups that have no row whose columns are `within` their ranges."""
    directory = store.local_directory
    source = (
        pa.PythonFile(StoredFile(store.bucket, path), "r")
        if directory is None
        else pa.OSFile(os.path.join(directory, path))
    )
    with source, pq.ParquetFile(source, pre_buffer=directory is None) as file:
        for group in range(file.num_row_groups):
            if _may_have(file.metadata.row_group(group), within or {}):
                yield from file.iter_batches(row_groups=[group], columns=columns)


class StoredFile(io.RawIOBase):
    """An object as a file: every read is a request for a range. Raises what Bucket raises."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self._size = bucket.size(key)
        self._position = 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it can be read from anywhere."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Change the position and return it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, fewer only at the end."""
        end = self._size if size < 0 else min(self._position + size, self._size)
        if end <= self._position:
            return b""
        data = bytes(self._bucket.get_range(self._key, range(self._position, end)))
        self._position = end
        return data


def _may_have(group: pq.RowGroupMetaData, within: Mapping[str, ColumnRange]) -> bool:
    """Return whether a row group can have a row in all these ranges, as far as its statistics say."""
    for index in range(group.num_columns if within else 0):
        column = group.column(index)
        wanted, found = within.get(column.path_in_schema), column.statistics
        if wanted is None or found is None or not found.has_min_max:
            continue
        if found.max < wanted.least or found.min > wanted.greatest:
            return False
    return True
