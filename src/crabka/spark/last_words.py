"""What pyspark and py4j print by themselves when Java dies under them: kept with Java's own log.

A command says one sentence then. Their tracebacks, from threads of theirs, would stand before it, after it or in it.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from crabka.spark.java_log import JavaLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def keeping_last_words(session: SparkSession, log: JavaLog) -> Iterator[None]:
    """Write to the log what the libraries of a classic session have to say of their connections to Java."""
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
    # py4j speaks through the root logger itself, whose filters see nothing of other loggers.
    root = logging.getLogger()
    root.addFilter(is_of_others)
    try:
        yield
    finally:
        root.removeFilter(is_of_others)
