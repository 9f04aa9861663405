"""Files and directories that may be removed once `file.delete.delay.ms` has passed.

Readers that still hold a renamed file open finish undisturbed in that time.
"""

from __future__ import annotations

import errno
import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from crabka.ports import FileSystem

_OF_THE_DISK: Final = frozenset({errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO})


class Deletions:
    """Paths in the order in which they are due."""

    __slots__ = ("_fs", "_heap")

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, path: str, due_ms: int) -> None:
        """Remove a file or directory at the first run from `due_ms` on."""
        heapq.heappush(self._heap, (due_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """Return the paths that are due and forget them."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heapq.heappop(self._heap)[1])
        return due

    def remove(self, paths: list[str]) -> list[OSError]:
        """Remove paths; what is gone already is fine. May run in a thread; returns what failed."""
        failures = []
        for path in paths:
            try:
                if self._fs.stat(path).is_dir:
                    self._fs.rmtree(path)
                else:
                    self._fs.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                failures.append(error)
        return failures


def is_disk_failure(error: OSError) -> bool:
    """Return whether an error that kept files from being removed says that the disk is bad, not just the file."""
    return error.errno in _OF_THE_DISK
