"""The end of a test that does not end: the hard limit above the one of pytest-timeout.

pytest-timeout raises an exception in the main thread when the time of a test is up. That ends most hung tests, with
their stack in the report, and the run goes on. It does not end a test whose main thread waits in C code that looks at
no signals, nor one that catches the exception (a task of asyncio keeps it to itself), and it lets go of a test that
failed before its fixtures hang. What is left some time later is ended from outside the interpreter: the stacks of all
threads go to standard error, and the process exits. Under pytest-xdist that fails the test as a crash of the worker,
and a new worker runs the others.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

GRACE_S = 120.0
"""How long a test whose time is up may take to end its processes and to be reported."""

EXIT_S = 120.0
"""How long the process may take to exit after the last test: a thread that was left running holds it up."""


class HardLimit:
    """Ends the process when a test runs longer than its limit and the grace; a plugin of pytest."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        """Prepare; the stacks go to what is standard error now, before pytest captures it."""
        self._grace_s = grace_s
        self._deadline: float | None = None
        # For the life of the process: it is needed until the interpreter has ended.
        self._error_fd = os.dup(_standard_error())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Let a test begin without a limit, and end it with its own."""
        try:
            return (yield)
        finally:
            self._deadline = None
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """Start with the limit that pytest-timeout found for the test; None lets it set its own timer."""
        self._deadline = time.monotonic() + settings.timeout + self._grace_s
        self._arm()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Go on after a failure, at which pytest drops all timers although fixtures are still to be torn down."""
        if self._deadline is not None:
            self._arm()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Limit the exit; a worker, which waits for the other workers, is ended by the process that started it."""
        if not hasattr(session.config, "workerinput"):
            faulthandler.dump_traceback_later(EXIT_S, file=self._error_fd, exit=True)

    def _arm(self) -> None:
        assert self._deadline is not None
        left_s = max(self._deadline - time.monotonic(), 1.0)
        faulthandler.dump_traceback_later(left_s, file=self._error_fd, exit=True)


def _standard_error() -> int:
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return sys.stderr.fileno()
    assert sys.__stderr__ is not None  # a worker of pytest-xdist has another object at its place
    return sys.__stderr__.fileno()
