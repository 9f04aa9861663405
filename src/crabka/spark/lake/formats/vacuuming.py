"""Removal of files that no state of a table within the grace needs.

A file younger than the grace stays whatever it is: a sync may be about to commit it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.data_files import DATA_SUFFIX
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import Vacuum

_AT_ONCE = 500


def remove_unreferenced(
    store: LakeStore,
    referenced: set[str],
    since_ms: int,
    is_metadata: Callable[[str], bool] = lambda _path: False,
    *,
    live: Collection[str],
) -> Vacuum:
    """Remove data files, and files of the format that `is_metadata` knows, that are unreferenced and old enough.

    `live` are the data files of the table as it is now. Raises LakeError, and removes nothing, if one of them is not
    there: either it is lost, or paths are spelled in two ways and the files of the table would be taken for others.
    """
    removed: list[str] = []
    size_bytes = 0
    missing = set(live)
    for stored in store.list_files():
        missing.discard(stored.key)
        is_ours = _is_data(stored.key) or is_metadata(stored.key)
        if is_ours and stored.key not in referenced and stored.key not in live and stored.modified_ms < since_ms:
            removed.append(stored.key)
            size_bytes += stored.size_bytes
    if missing:
        raise LakeError(f"The table {store.url} has {min(missing)}, which is not there: nothing was removed")
    for start in range(0, len(removed), _AT_ONCE):
        store.delete(removed[start : start + _AT_ONCE])
    return Vacuum(tuple(removed), size_bytes)


def _is_data(path: str) -> bool:
    """Return whether a path may be of rows: checkpoints of Delta, below `_delta_log`, are Parquet files as well.

    The directory of a partition column may begin with an underscore too, but has a value.
    """
    top, slash, _ = path.partition("/")
    is_hidden = bool(slash) and top.startswith("_") and "=" not in top
    return path.endswith(DATA_SUFFIX) and not is_hidden
