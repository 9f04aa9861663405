"""Catalogs of Iceberg tables: SQLite beside the tables, or whatever pyiceberg is configured to use.

A catalog decides which metadata file is the table, so all writers must use the same one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.local_disk import reporting_disk_errors
from crabka.spark.lake.formats.store import LakeStore

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CATALOG_FILE = "iceberg-catalog.db"
NAMESPACE = "crabka"
_BUSY_SECONDS = 60
_TRIES = 5


def open_catalog(store: LakeStore, name: str | None) -> Catalog:
    """Return the catalog that pyiceberg's configuration calls `name`, by default SQLite in the tables' root.

    Raises LakeError.
    """
    if name is not None:
        return _load(name, name, {})
    directory = store.local_directory
    if directory is None:
        raise LakeError("Iceberg tables in an object store need --catalog with the name of a catalog of pyiceberg")
    root = os.path.dirname(directory)
    with reporting_disk_errors(f"The directory {root} cannot be made"):
        os.makedirs(root, exist_ok=True)
    path = os.path.join(root, CATALOG_FILE)
    place = {"type": "sql", "uri": f"sqlite:///{path}?timeout={_BUSY_SECONDS}", "warehouse": f"file://{root}"}
    return _load("crabka", path, place)


def _load(name: str, shown_as: str, properties: dict[str, str]) -> Catalog:
    from pyiceberg.catalog import load_catalog
    from sqlalchemy.exc import SQLAlchemyError

    attempt = 1
    while True:
        try:
            return load_catalog(name, **properties)
        except Exception as error:
            # Two that open a new database at once both try to make its tables; the next attempt finds them.
            if attempt == _TRIES or not isinstance(error, SQLAlchemyError):
                reason = " ".join(str(error).split())
                raise LakeError(f"The Iceberg catalog {shown_as} cannot be opened: {reason}") from error
        attempt += 1
