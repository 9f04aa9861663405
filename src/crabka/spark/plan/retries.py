"""Asking a cluster again, as often as the options of Spark's source say."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.spark.source.options import SourceOptions

T = TypeVar("T")
_log = logging.getLogger(__name__)


def with_retries(options: SourceOptions, ask: Callable[[], T]) -> T:
    """Return the answer of the first try that works. Raises the error of the last one."""
    for attempt in range(1, options.offset_tries + 1):
        try:
            return ask()
        except (ClientNetworkError, OperationError) as error:
            if attempt == options.offset_tries or (isinstance(error, OperationError) and not error.retriable):
                raise
            _log.warning("try %d of %d to ask the cluster failed: %s", attempt, options.offset_tries, error)
            time.sleep(options.offset_retry_interval_ms / 1000)
    raise AssertionError("there is at least one try")
