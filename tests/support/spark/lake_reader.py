"""Tables read without the libraries that wrote them, by `_delta_log`, Iceberg's metadata and manifests.

Only what the tests' tables need. The rows of the files are read by duckdb.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import fastavro
import pyarrow as pa

ICEBERG_CATALOG = "iceberg-catalog.db"


def table_files(root: Path, name: str, table_format: str) -> list[Path]:
    """The files of the table as it is now."""
    return {"delta": _delta_files, "iceberg": _iceberg_files, "parquet": _parquet_files}[table_format](root, name)


def table_rows(root: Path, name: str, table_format: str) -> list[dict[str, Any]]:
    """All rows, in the order of partition and offset; columns that a file lacks are missing."""
    rows = [row for path in table_files(root, name, table_format) for row in _rows_of(path, "*").to_pylist()]
    return sorted(rows, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))


def table_places(root: Path, name: str, table_format: str) -> list[tuple[int, int]]:
    """Partition and offset of all rows."""
    files = table_files(root, name, table_format)
    tables = [_rows_of(path, "kafka_partition, kafka_offset") for path in files]
    return sorted((row["kafka_partition"], row["kafka_offset"]) for table in tables for row in table.to_pylist())


def _rows_of(path: Path, columns: str) -> pa.Table:
    with duckdb.connect() as connection:
        # What the directories' names say of a file's rows is not in the file.
        rows = connection.read_parquet(str(path), hive_partitioning=False)
        return rows.project(columns).to_arrow_table()


def _delta_files(root: Path, name: str) -> list[Path]:
    log = root / name / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    live: dict[str, None] = {}
    start = -1
    if checkpoints:
        start = int(checkpoints[-1].name.partition(".")[0])
        for row in _rows_of(checkpoints[-1], "add").to_pylist():
            if row["add"] is not None:
                live[row["add"]["path"]] = None
    for path in sorted(log.glob("*.json")):
        if int(path.stem) <= start:
            continue
        for line in path.read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                live.pop(action["remove"]["path"], None)
            if "add" in action:
                live[action["add"]["path"]] = None
    return [root / name / unquote(path) for path in live]


def _iceberg_files(root: Path, name: str) -> list[Path]:
    with closing(sqlite3.connect(root / ICEBERG_CATALOG)) as catalog:
        query = "select metadata_location from iceberg_tables where table_name = ?"
        [(location,)] = catalog.execute(query, (name,)).fetchall()
    metadata = json.loads((root / name / "metadata" / location.rpartition("/")[2]).read_text())

    def local(address: str) -> Path:
        assert address.startswith(metadata["location"])
        return root / name / unquote(address.removeprefix(metadata["location"]).lstrip("/"))

    files: list[Path] = []
    for snapshot in metadata["snapshots"]:
        if snapshot["snapshot-id"] != metadata.get("current-snapshot-id"):
            continue
        for manifest in _avro(local(snapshot["manifest-list"])):
            entries = _avro(local(manifest["manifest_path"]))
            files += [local(entry["data_file"]["file_path"]) for entry in entries if entry["status"] != 2]
    return files


def _parquet_files(root: Path, name: str) -> list[Path]:
    live: dict[str, None] = {}
    for path in sorted((root / name / "_crabka").glob("*.json")):
        manifest = json.loads(path.read_text())
        if manifest["full"]:
            live = {}
        for removed in manifest["removed"]:
            del live[removed]
        live |= {file["path"]: None for file in manifest["added"]}
    return [root / name / path for path in live]


def _avro(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))
