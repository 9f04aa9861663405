"""Topics as tables: Delta, Iceberg or Parquet, exactly once. `files` is how readers of Parquet tables get in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.lake.errors import CommitConflictError, LakeError, SchemaConflictError
    from crabka.spark.lake.settings import SyncSettings
    from crabka.spark.lake.status import TableStatus, table_status
    from crabka.spark.lake.sync_job import LakeSync, SyncRequest, TopicSummary, sync
    from crabka.spark.lake.tables import Lake, files
    from crabka.spark.lake.value_modes import value_decoder

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
        "settings": ["SyncSettings"],
        "status": ["TableStatus", "table_status"],
        "sync_job": ["LakeSync", "SyncRequest", "TopicSummary", "sync"],
        "tables": ["Lake", "files"],
        "value_modes": ["value_decoder"],
    },
)
