from __future__ import annotations

import asyncio
from collections.abc import Callable

from crabka.net.turns import BUSY_FREE_REQUESTS, FREE_REQUESTS, MIN_REQUESTS_PER_TURN, REQUESTS_PER_TURN, TURN_MS, Turns
from tests.support.async_tests import real_time, run_with
from tests.support.wire.net import ManualClock


class Taker:
    """Notes its turns."""

    def __init__(self, name: str, taken: list[str], then: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._taken = taken
        self._then = then

    def take_turn(self) -> None:
        self._taken.append(self._name)
        self._then()


@run_with(real_time)
async def test_a_turn_ends_with_its_time_and_the_next_one_begins_after_the_loop_went_round() -> None:
    clock = ManualClock()
    turns = Turns(clock)
    assert not turns.is_over(0)
    clock.ms += TURN_MS - 1
    assert not turns.is_over(0)
    clock.ms += 1
    assert turns.is_over(0)
    assert turns.free_requests == BUSY_FREE_REQUESTS
    await asyncio.sleep(0)
    assert turns.free_requests == FREE_REQUESTS
    assert not turns.is_over(0)


@run_with(real_time)
async def test_a_connection_stops_after_some_requests_and_sooner_if_many_are_in_line() -> None:
    turns = Turns()
    assert not turns.is_over(REQUESTS_PER_TURN - 1)
    assert turns.is_over(REQUESTS_PER_TURN)
    for number in range(1000):
        turns.join(Taker(str(number), []))
    assert not turns.is_over(MIN_REQUESTS_PER_TURN - 1)
    assert turns.is_over(MIN_REQUESTS_PER_TURN)


@run_with(real_time)
async def test_the_line_is_served_in_order_and_who_stops_again_goes_to_its_end() -> None:
    turns, taken = Turns(), list[str]()
    greedy = Taker("greedy", taken, lambda: None if len(taken) > 4 else turns.join(greedy))
    for taker in (greedy, Taker("a", taken), Taker("b", taken)):
        turns.join(taker)
    assert taken == []
    while len(turns):
        await asyncio.sleep(0)
    assert taken == ["greedy", "a", "b", "greedy", "greedy"]


@run_with(real_time)
async def test_others_run_between_two_turns_however_long_the_line_is() -> None:
    clock, order = ManualClock(), list[str]()
    turns = Turns(clock)

    def take_long() -> None:
        clock.ms += TURN_MS

    for name in "abc":
        turns.join(Taker(name, order, take_long))
    while len(turns):
        await asyncio.sleep(0)
        order.append("other")
    assert order[:6] == ["a", "other", "b", "other", "c", "other"]


@run_with(real_time)
async def test_a_failure_in_one_turn_does_not_stop_the_line() -> None:
    turns, taken, reported = Turns(), list[str](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context["exception"]))

    def fail() -> None:
        raise ValueError("broken")

    turns.join(Taker("a", taken, fail))
    turns.join(Taker("b", taken))
    while len(turns):
        await asyncio.sleep(0)
    assert taken == ["a", "b"]
    assert [str(error) for error in reported] == ["broken"]
