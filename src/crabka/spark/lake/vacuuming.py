"""Removal of files that no state of a table within the grace needs.

A file younger than the grace stays whatever it is: a sync may be about to commit it.
"""

from __future__ import annotations

from collections.abc import Callable

from crabka.spark.lake.data_files import DATA_SUFFIX
from crabka.spark.lake.store import LakeStore
from crabka.spark.lake.table import Vacuum

_AT_ONCE = 500


def remove_unreferenced(
    store: LakeStore, referenced: set[str], since_ms: int, is_metadata: Callable[[str], bool] = lambda _path: False
) -> Vacuum:
    """Remove data files, and files of the format that `is_metadata` knows, that are unreferenced and old enough."""
    removed: list[str] = []
    size_bytes = 0
    for stored in store.list_files():
        is_ours = stored.key.endswith(DATA_SUFFIX) or is_metadata(stored.key)
        if is_ours and stored.key not in referenced and stored.modified_ms < since_ms:
            removed.append(stored.key)
            size_bytes += stored.size_bytes
    for start in range(0, len(removed), _AT_ONCE):
        store.delete(removed[start : start + _AT_ONCE])
    return Vacuum(tuple(removed), size_bytes)
