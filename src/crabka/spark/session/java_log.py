"""A file with what Spark's Java, its workers, pyspark and py4j print, so that a command prints one sentence only.

The file is removed after a job that succeeds. When Java dies, pyspark and py4j print tracebacks from threads of their
own; these go to the file as well.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        """Send standard error of processes that start meanwhile to the file."""
        sys.stderr.flush()
        ours = os.dup(2)
        os.dup2(self._descriptor, 2)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            os.close(ours)

    def write(self, text: str) -> None:
        """Add a text, from any thread; it is lost if the log is closed or the disk full."""
        with self._lock, suppress(OSError):
            if self._is_open:
                os.write(self._descriptor, text.encode(errors="replace"))

    def close(self, *, keep: bool) -> None:
        """Close the file. A temporary one is removed unless it is to be kept."""
        with self._lock:
            self._is_open = False
            os.close(self._descriptor)
        if self._is_temporary and not keep:
            with suppress(OSError):
                os.unlink(self.path)


@contextmanager
def keeping_exit_report(session: SparkSession, log: JavaLog) -> Iterator[None]:
    """Write to the log what pyspark and py4j report about their connections to Java, which ends as an exit report."""
    formatter = logging.Formatter()

    def is_of_others(record: logging.LogRecord) -> bool:
        if "py4j" not in PurePath(record.pathname).parts:
            return True
        log.write(f"{formatter.format(record)}\n")
        return False

    def on_error(_request: object, _address: object) -> None:
        log.write(traceback.format_exc())

    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = on_error
    # py4j logs through the root logger, whose filters do not see records of other loggers.
    root = logging.getLogger()
    root.addFilter(is_of_others)
    try:
        yield
    finally:
        root.removeFilter(is_of_others)
