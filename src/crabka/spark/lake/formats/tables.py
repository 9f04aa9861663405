"""Tables by the name of their format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crabka.errors import ConfigError
from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import TableFormat, TableSpec

# By which files a directory is known to be a table of a format.
_MARKS = {
    "delta": ("_delta_log", ".json"),
    "iceberg": ("metadata", ".metadata.json"),
    "parquet": ("_crabka", ".json"),
}
FORMATS = tuple(_MARKS)


@dataclass(frozen=True, slots=True)
class Lake:
    """Where tables are and what they are made of. Raises ConfigError for a format that is none."""

    root: str
    table_format: str
    now_ms: Callable[[], int]
    catalog: str | None = None

    def __post_init__(self) -> None:
        if self.table_format not in FORMATS:
            raise ConfigError(f"{self.table_format} is not a table format: use {', '.join(FORMATS)}")
        if self.catalog is not None and self.table_format != "iceberg":
            raise ConfigError("A catalog is only for Iceberg tables")

    def store(self, name: str) -> LakeStore:
        """Return the place of a table."""
        return LakeStore(self.root, name)

    def open(self, name: str) -> TableFormat | None:
        """Return a table as it is now, None if there is none. Raises LakeError."""
        store = self.store(name)
        match self.table_format:
            case "delta":
                from crabka.spark.lake.formats.delta_table import DeltaLakeTable

                return DeltaLakeTable.open(store, self.now_ms)
            case "iceberg":
                from crabka.spark.lake.formats.iceberg_catalog import open_catalog
                from crabka.spark.lake.formats.iceberg_table import IcebergLakeTable

                return IcebergLakeTable.open(store, open_catalog(store, self.catalog))
        from crabka.spark.lake.formats.parquet_table import ParquetTable

        return ParquetTable.open(store, self.now_ms)

    def create(self, name: str, spec: TableSpec) -> TableFormat:
        """Make a table, or return the one that another writer made in the meantime. Raises LakeError."""
        store = self.store(name)
        self._refuse_other_formats(store)
        match self.table_format:
            case "delta":
                from crabka.spark.lake.formats.delta_table import DeltaLakeTable

                return DeltaLakeTable.create(store, spec, self.now_ms)
            case "iceberg":
                from crabka.spark.lake.formats.iceberg_catalog import open_catalog
                from crabka.spark.lake.formats.iceberg_table import IcebergLakeTable

                return IcebergLakeTable.create(store, spec, open_catalog(store, self.catalog))
        from crabka.spark.lake.formats.parquet_table import ParquetTable

        return ParquetTable.create(store, spec, self.now_ms)

    def _refuse_other_formats(self, store: LakeStore) -> None:
        """Two tables in one directory would remove each other's files."""
        for table_format, (directory, suffix) in _MARKS.items():
            if table_format != self.table_format and any(
                stored.key.endswith(suffix) for stored in store.list_files(directory)
            ):
                raise LakeError(
                    f"There is a table at {store.url} already, of the format {table_format} and not "
                    f"{self.table_format}: choose another place or another name"
                )

    def files(self, name: str) -> list[str]:
        """Return the addresses of the files of a table. Raises LakeError."""
        opened, store = self.open(name), self.store(name)
        if opened is None:
            raise LakeError(f"There is no table at {store.url}")
        return [store.absolute(file.path) for file in opened.files()]


def files(table: str, *, now_ms: Callable[[], int] = lambda: 0) -> list[str]:
    """Return the addresses of the files of a Parquet table, for any reader of Parquet. Raises LakeError.

    A listing of the directory may hold files that were never committed, or are no longer part of the table.
    """
    place, question, parameters = table.partition("?")
    root, slash, name = place.rstrip("/").rpartition("/")
    return Lake(f"{root or slash or '.'}{question}{parameters}", "parquet", now_ms).files(name)
