"""Task scopes leave no task running."""

from __future__ import annotations

import asyncio

import pytest

from crabka.runtime.task_scope import TaskScope


def test_close_cancels_what_runs() -> None:
    async def main() -> asyncio.Task[None]:
        scope = TaskScope()
        task: asyncio.Task[None] = scope.start(asyncio.Event().wait())
        await scope.close()
        return task

    assert asyncio.run(main()).cancelled()


def test_close_raises_an_unhandled_failure() -> None:
    async def fail() -> None:
        raise ValueError("lost")

    async def main() -> None:
        scope = TaskScope()
        scope.start(fail())
        await asyncio.sleep(0)
        await scope.close()

    with pytest.raises(ValueError, match="lost"):
        asyncio.run(main())


def test_a_failure_goes_to_the_owner_that_wants_it() -> None:
    async def fail() -> None:
        raise ValueError("reported")

    async def main() -> list[BaseException]:
        failures: list[BaseException] = []
        scope = TaskScope(failures.append)
        scope.start(fail())
        await asyncio.sleep(0)
        await scope.close()
        return failures

    assert [str(failure) for failure in asyncio.run(main())] == ["reported"]


def test_a_closed_scope_cancels_new_tasks_at_once() -> None:
    async def main() -> asyncio.Task[None]:
        scope = TaskScope()
        await scope.close()
        task: asyncio.Task[None] = scope.start(asyncio.Event().wait())
        assert len(scope) == 1
        await scope.close()
        return task

    assert asyncio.run(main()).cancelled()
