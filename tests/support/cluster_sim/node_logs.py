"""What the nodes of a simulation log, by process; dead ones are ignored."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tests.support.cluster_sim.process_loop import PROCESS


class NodeLogs(logging.Handler):
    """While this is entered, log records go to a listener, or nowhere."""

    def __init__(self, listener: Callable[[str], None] | None) -> None:
        super().__init__(logging.INFO)
        self._listener = listener
        self._logger = logging.getLogger("crabka")

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on, unless it comes from a dead process."""
        process = PROCESS.get()
        if self._listener is not None and (process is None or not process.is_dead):
            name = "clients" if process is None else process.name
            self._listener(f"{'':12}{name} logs: {record.getMessage()}")

    def __enter__(self) -> NodeLogs:
        self._before = (self._logger.level, self._logger.propagate)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.level, self._logger.propagate = self._before
