"""Catalogs of Iceberg tables: SQLite beside the tables, or whatever pyiceberg is configured to use.

A catalog decides which metadata file is the table, so all who write must use the same one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.store import LakeStore

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
    from pyiceberg.catalog import load_catalog

    if name is not None:
        try:
            return load_catalog(name)
        except Exception as error:
            raise LakeError(f"The Iceberg catalog {name} cannot be opened: {' '.join(str(error).split())}") from error
    directory = store.local_directory
    if directory is None:
        raise LakeError("Iceberg tables in an object store need --catalog with the name of a catalog of pyiceberg")
    root = os.path.dirname(directory)
    os.makedirs(root, exist_ok=True)
    return _open_sqlite(os.path.join(root, CATALOG_FILE), root, store.iceberg_properties)


def _open_sqlite(path: str, root: str, properties: dict[str, str]) -> Catalog:
    from pyiceberg.catalog import load_catalog
    from sqlalchemy.exc import SQLAlchemyError

    for attempt in range(1, _TRIES + 1):
        try:
            return load_catalog(
                "crabka",
                type="sql",
                uri=f"sqlite:///{path}?timeout={_BUSY_SECONDS}",
                warehouse=f"file://{root}",
                **properties,
            )
        except SQLAlchemyError as error:
            # Two that open a new file at once both try to make its tables; the next attempt finds them.
            if attempt == _TRIES:
                raise LakeError(f"The catalog {path} cannot be opened: {' '.join(str(error).split())}") from error
    raise LakeError(f"The catalog {path} cannot be opened")
