from __future__ import annotations

import asyncio
import gc
import weakref

from crabka.runtime.collector import NEW_OBJECTS, PeriodicCollector, collect_less_often


def test_only_the_number_of_new_objects_changes() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 11, 12)
        collect_less_often()
        assert gc.get_threshold() == (NEW_OBJECTS, 11, 12)
    finally:
        gc.set_threshold(*before)


class Loop:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_new_cycles_are_collected_from_time_to_time() -> None:
    async def main() -> None:
        cycle = weakref.ref(Loop())
        with PeriodicCollector(0.001):
            while cycle() is not None:
                await asyncio.sleep(0.001)

    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(main(), 20))
    finally:
        gc.enable()
