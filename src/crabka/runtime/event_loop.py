"""Start of the event loop: uvloop where it is installed, else asyncio's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a fresh loop of the fastest kind at hand."""
    try:
        import uvloop
    except ImportError:  # no build of it for this platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a fresh loop, as asyncio.run does."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
