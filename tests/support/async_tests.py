"""One decorator for tests that are coroutine functions.

`@run_with(runner)` lets a runner such as `simulate` or `virtual_time` run the test. The runner is called with a
coroutine function and passes what it prepared. The test receives that in its positional-only parameters, as many as it
declares; the parameters after `/` are pytest's fixtures and cases:

    @run_with(simulate, node_ids=(1, 2))
    async def test_producer_finds_leaders(simulation: ClientSimulation, /, tmp_path: Path) -> None: ...

A runner receives fixtures too, for each parameter after the first that has neither a default nor a given value.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from crabka.testing import VirtualTimeLoop

AsyncTest = Callable[..., Coroutine[Any, Any, None]]


def run_with(
    runner: Callable[..., object], *values: object, **settings: object
) -> Callable[[AsyncTest], Callable[..., None]]:
    """Turn a coroutine function into a test that the runner runs, with the given values and settings."""
    wanted = [
        parameter
        for parameter in list(inspect.signature(runner).parameters.values())[1 + len(values) :]
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in settings
    ]

    def decorate(test: AsyncTest) -> Callable[..., None]:
        signature = inspect.signature(test)
        received = [each for each in signature.parameters.values() if each.kind is each.POSITIONAL_ONLY]
        fixtures = [each for each in signature.parameters.values() if each.kind is not each.POSITIONAL_ONLY]
        names = {each.name for each in fixtures}

        added = [each.replace(kind=each.KEYWORD_ONLY) for each in wanted if each.name not in names]
        outer = signature.replace(parameters=[*fixtures, *added])

        @functools.wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            cases = outer.bind(*args, **kwargs).arguments

            async def body(*prepared: Any) -> None:
                await test(*prepared[: len(received)], **{name: cases[name] for name in names})

            runner(body, *values, **settings, **{each.name: cases[each.name] for each in wanted})

        # pytest and hypothesis read from the signature what they have to pass.
        run.__signature__ = outer  # type: ignore[attr-defined]
        return run

    return decorate


def virtual_time(test: Callable[[VirtualTimeLoop], Coroutine[Any, Any, None]]) -> None:
    """Run a test in virtual time; it may receive the loop."""
    loop = VirtualTimeLoop()
    loop.run(test(loop))


def real_time(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a loop of asyncio."""
    asyncio.run(test())
