"""What Spark's Java and its workers write to standard error: kept in a file, for those who look for a cause.

Of a job that went well it is not of interest, and where it did not, a command says one sentence.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

# Names a file that Spark's log is added to, and that stays.
LOG_VARIABLE: Final = "CRABKA_SPARK_LOG"


class JavaLog:
    """The file of one session."""

    def __init__(self, path: str | None = None) -> None:
        """Without a path, and without one in the environment, the file is a temporary one. Raises OSError."""
        wanted = path or os.environ.get(LOG_VARIABLE)
        self._lock = threading.Lock()
        self._is_open = True
        self._is_temporary = not wanted
        if wanted:
            self.path = wanted
            self._descriptor = os.open(wanted, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        else:
            self._descriptor, self.path = tempfile.mkstemp(prefix="crabka-spark-", suffix=".log")

    @contextmanager
    def taking_errors(self) -> Iterator[None]:
        """Let processes that are started meanwhile write their errors to the file."""
        sys.stderr.flush()
        ours = os.dup(2)
        os.dup2(self._descriptor, 2)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            os.close(ours)

    def write(self, text: str) -> None:
        """Add a text, from any thread; what comes after the end, or finds the disk full, is lost."""
        with self._lock, suppress(OSError):
            if self._is_open:
                os.write(self._descriptor, text.encode(errors="replace"))

    def close(self, *, keep: bool) -> None:
        """Let go of the file. A temporary one is removed unless it is to be kept."""
        with self._lock:
            self._is_open = False
            os.close(self._descriptor)
        if self._is_temporary and not keep:
            with suppress(OSError):
                os.unlink(self.path)
