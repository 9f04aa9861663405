"""How many descriptors the logs of a node may hold, and what happens when the process has none left.

Of the limit of the process a quarter is for active segments, a sixteenth (at most 512) for sealed ones that are read, a
sixteenth for everything that opens a file for a moment: flushes, checkpoints, the metadata log. The rest is for
connections, which are refused before they take what the logs may still need (`net.descriptor_guard`).
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Final

from crabka.log.segment.caches import Handle, LruCache
from crabka.log.segment.open_segments import DEFAULT_CAPACITY, OpenSegments
from crabka.vfs.syncing import sync_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.ports import File

logger = logging.getLogger(__name__)

MAX_SEALED: Final = 512
_ACTIVE_SHARE: Final = 4
_SEALED_SHARE: Final = 16
_PASSING_SHARE: Final = 16
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)
_CAUSES: Final = 8
_EPISODE_OPENINGS: Final = 100


class LogDescriptors:
    """The share of the logs in the descriptors of a process."""

    def __init__(
        self, limit: int | None = None, sync_files: Callable[[Sequence[File]], list[OSError | None]] | None = None
    ) -> None:
        """`sync_files` makes files durable when the loop has to wait for that."""
        self._limit = limit
        active = DEFAULT_CAPACITY if limit is None else limit // _ACTIVE_SHARE
        self.sealed_capacity = MAX_SEALED if limit is None else max(min(MAX_SEALED, limit // _SEALED_SHARE), 1)
        self.active = OpenSegments(max(active, 1), sync_files or sync_each)
        self.sealed: LruCache[Handle] = LruCache(self.sealed_capacity)
        # How many files had been opened when the lack of descriptors was logged last.
        self._complained_at: int | None = None

    @property
    def unclaimed(self) -> int:
        """How many more descriptors the logs may take, and what passes through."""
        passing = 0 if self._limit is None else self._limit // _PASSING_SHARE
        open_count = len(self.active) + len(self.sealed)
        return passing + max(self.active.ceiling + self.sealed_capacity - open_count, 0)

    def is_exhausted(self, error: BaseException | None) -> bool:
        """Return whether an error, or what caused it, says that the process has no descriptor left; log it once.

        One warning is for an episode, which is over when many files could be opened.
        """
        for _ in range(_CAUSES):
            if error is None:
                return False
            if isinstance(error, OSError) and error.errno in _NONE_LEFT:
                self._complain(error)
                return True
            error = error.__cause__
        return False

    def _complain(self, error: OSError) -> None:
        opened, last = self.active.opened_count, self._complained_at
        self._complained_at = opened
        if last is None or opened - last > _EPISODE_OPENINGS:
            logger.warning(
                "no descriptor is left (%s): requests fail until some are closed; raise the limit (ulimit -n)",
                error,
            )
