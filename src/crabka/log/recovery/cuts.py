"""What openings of logs took away or had to build anew: one warning for each, and the numbers of a node.

Nothing of a data log goes without a word: a cut names the file, the offsets, the bytes and the reason. Knows neither
segments nor requests. May be called from any thread.
"""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

logger = logging.getLogger(__name__)


class LogCut(NamedTuple):
    """The end of a log that was taken away, because no whole batch is there."""

    # The `.log` file, and from where on its bytes went; 0 if it went as a whole.
    path: str
    position: int
    size_bytes: int
    # The first offset that is missing.
    offset: int
    reason: str

    def __str__(self) -> str:
        end = self.position + self.size_bytes
        return f"{self.path}: bytes {self.position} to {end}, from offset {self.offset} on: {self.reason}"


class CutStats:
    """The numbers of one node since its start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.cuts = 0
        self.cut_bytes = 0
        self.rebuilt_files = 0

    def note_cut(self, cut: LogCut) -> None:
        """Count a cut and log it."""
        with self._lock:
            self.cuts += 1
            self.cut_bytes += cut.size_bytes
        logger.warning("cut %d bytes of a log: %s", cut.size_bytes, cut)

    def note_rebuilt(self, path: str, reason: object) -> None:
        """Count a file that is not the truth and is built anew, and log it."""
        with self._lock:
            self.rebuilt_files += 1
        logger.warning("%s is not used and built anew: %s", path, reason)

    def note_healed(self, reason: str) -> None:
        """Count a file of a log dir that was damaged and is right again, and log it; `reason` names it."""
        with self._lock:
            self.rebuilt_files += 1
        logger.warning("%s", reason)
