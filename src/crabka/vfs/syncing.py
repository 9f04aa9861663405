"""Makes many files durable at once.

A journaling file system commits its journal for an fsync, and one commit serves all that wait for it. So files that are
synced by several threads take little longer than one of them; one after the other each waits for a commit of its own
(on ext4 about twenty times as long in all).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.ports import File

SYNCS_AT_ONCE: Final = 8


def sync_each(files: Sequence[File]) -> list[OSError | None]:
    """Sync files one after the other; return what went wrong with each."""
    return [_sync(file) for file in files]


def sync_together(files: Sequence[File]) -> list[OSError | None]:
    """Sync files in threads of their own, and wait for all; return what went wrong with each."""
    if len(files) <= 1:
        return sync_each(files)
    with ThreadPoolExecutor(min(SYNCS_AT_ONCE, len(files)), thread_name_prefix="crabka-sync") as threads:
        return list(threads.map(_sync, files))


def _sync(file: File) -> OSError | None:
    try:
        file.fsync()
    except OSError as error:
        return error
    return None
