"""Waits for a condition, and says what was seen last when it does not come true.

A condition often asks the broker: what it got from there stands in the message, for `False` alone explains nothing.
"""

from __future__ import annotations

import inspect
import linecache
import reprlib
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

POLL_S: Final = 0.02
# What a condition may raise while its time has not come: nothing there yet, or the broker is not there yet.
_NOT_YET: Final = (AssertionError, LookupError, OperationError, ClientNetworkError)
_MOST_TEXT: Final = 300

_SEEN: ContextVar[dict[str, Any] | None] = ContextVar("crabka-seen", default=None)


def note_seen(what: str, value: T) -> T:
    """Remember what a condition got, for the message; return it."""
    seen = _SEEN.get()
    if seen is not None:
        seen[what] = value
    return value


def wait_until(
    condition: Callable[[], T],
    timeout: float,
    *,
    message: str | None = None,
    check: Callable[[], None] = lambda: None,
) -> T:
    """Call until the result is true, and return it. `check` may raise to end the waiting.

    Failed assertions, missing items and errors of brokers mean: not yet. Raises TimeoutError.
    """
    deadline = time.monotonic() + timeout
    while True:
        check()
        seen: dict[str, Any] = {}
        token = _SEEN.set(seen)
        try:
            result = condition()
            outcome = f"it returned {_short(result)}"
            failure: BaseException | None = None
        except _NOT_YET as error:
            result, failure = None, error
            outcome = f"it raised {type(error).__name__}: {error}".rstrip(": ")
        finally:
            _SEEN.reset(token)
        if result:
            return result
        if time.monotonic() >= deadline:
            what = message or f"`{_source(condition)}`"
            lines = [f"not true within {timeout:g} s: {what}", outcome]
            lines += [f"{name}: {_short(value)}" for name, value in seen.items()]
            raise TimeoutError("\n  ".join(lines)) from failure
        time.sleep(POLL_S)


def _source(condition: Callable[[], object]) -> str:
    code = getattr(inspect.unwrap(condition), "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return str(getattr(condition, "__qualname__", condition))
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return line or str(condition)


def _short(value: object) -> str:
    text = _REPR.repr(value)
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"


_REPR: Final = reprlib.Repr()
_REPR.maxlist = _REPR.maxtuple = _REPR.maxset = _REPR.maxdict = 4
_REPR.maxstring = _REPR.maxother = 80
