from __future__ import annotations

import asyncio

from crabka.runtime.turns import in_turns


def test_others_get_their_turn_in_between() -> None:
    async def main() -> tuple[list[int], list[int]]:
        seen: list[int] = []
        interruptions: list[int] = []

        def interrupt() -> None:
            interruptions.append(len(seen))
            asyncio.get_running_loop().call_soon(interrupt)

        asyncio.get_running_loop().call_soon(interrupt)
        async for number in in_turns(range(10), per_turn=4):
            seen.append(number)  # noqa: PERF401 - what runs in between looks at it
        return seen, interruptions

    seen, interruptions = asyncio.run(main())
    assert seen == list(range(10))
    assert interruptions[:2] == [4, 8]


def test_nothing_is_nothing() -> None:
    async def main() -> list[int]:
        return [number async for number in in_turns(list[int]())]

    assert asyncio.run(main()) == []
