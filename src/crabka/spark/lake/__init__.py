"""Topics as tables: Delta, Iceberg or Parquet, exactly once. `files` is the entry for readers of Parquet tables.

`values` makes columns of values, `formats` keeps tables, `syncing` brings topics into them, `maintenance` compacts and
rewinds them. Imports point from the last to the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.lake.errors import CommitConflictError, LakeError, SchemaConflictError
    from crabka.spark.lake.formats.tables import Lake, files
    from crabka.spark.lake.maintenance.status import TableStatus, table_status
    from crabka.spark.lake.syncing.settings import SyncSettings
    from crabka.spark.lake.syncing.sync_job import LakeSync, SyncRequest, TopicSummary, sync
    from crabka.spark.lake.values.value_modes import value_decoder

__all__ = [
    "CommitConflictError",
    "Lake",
    "LakeError",
    "LakeSync",
    "SchemaConflictError",
    "SyncRequest",
    "SyncSettings",
    "TableStatus",
    "TopicSummary",
    "files",
    "sync",
    "table_status",
    "value_decoder",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "errors": ["CommitConflictError", "LakeError", "SchemaConflictError"],
        "formats.tables": ["Lake", "files"],
        "maintenance.status": ["TableStatus", "table_status"],
        "syncing.settings": ["SyncSettings"],
        "syncing.sync_job": ["LakeSync", "SyncRequest", "TopicSummary", "sync"],
        "values.value_modes": ["value_decoder"],
    },
)
