"""Going over very many things on the loop without keeping others from their turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

T = TypeVar("T")

# At some microseconds each a turn of the loop takes some milliseconds.
ITEMS_PER_TURN: Final = 256


async def in_turns(items: Iterable[T], *, per_turn: int = ITEMS_PER_TURN) -> AsyncIterator[T]:
    """Yield the items, and let the loop run after every `per_turn` of them.

    The state may change in between: the caller passes a list of its own and looks whether an item still counts.
    """
    for number, item in enumerate(items, start=1):
        yield item
        if not number % per_turn:
            await asyncio.sleep(0)
