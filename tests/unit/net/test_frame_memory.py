from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from crabka.net.frame_memory import FRAME_S, PROGRESS_BYTES, STALL_S, FrameMemory, FrameState
from crabka.protocol.frames import CHUNK_BYTES, PARK_BYTES, READ_BYTES
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with

MEBIBYTE = 1 << 20
LIMIT = 10 * MEBIBYTE


class Holder:
    """A connection that only listens."""

    def __init__(self) -> None:
        self.grants = 0
        self.loss: str | None = None
        self.received_bytes = 0

    def on_memory(self) -> None:
        self.grants += 1

    def on_memory_lost(self, reason: str) -> None:
        self.loss = reason


def run(main: Coroutine[Any, Any, None]) -> None:
    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()


def ask(memory: FrameMemory, holder: Holder, wanted: int, held: int = CHUNK_BYTES) -> bool:
    return memory.hold(holder, held, wanted, unfinished(holder, is_new=False))


def unfinished(holder: Holder, *, is_new: bool) -> FrameState:
    """What a peer reports that has sent a little more."""
    holder.received_bytes += PROGRESS_BYTES
    return FrameState(is_unfinished=True, is_new=is_new, received_bytes=holder.received_bytes)


async def pass_time(seconds: float) -> None:
    await asyncio.sleep(seconds)


@run_with(lambda test: run(test()))
async def test_a_frame_waits_until_there_is_room_and_a_smaller_one_passes() -> None:
    memory = FrameMemory(LIMIT)
    first, second, small = Holder(), Holder(), Holder()
    assert ask(memory, first, 8 * MEBIBYTE)
    assert not ask(memory, second, 8 * MEBIBYTE)
    assert memory.used_bytes == 8 * MEBIBYTE + CHUNK_BYTES
    assert ask(memory, small, MEBIBYTE)
    memory.release(small)
    assert second.grants == 0
    memory.release(first)
    assert second.grants == 1
    assert (memory.used_bytes, memory.waiting_count) == (8 * MEBIBYTE, 0)
    memory.release(second)
    assert memory.used_bytes == 0


@run_with(lambda test: run(test()))
async def test_small_frames_never_wait() -> None:
    memory = FrameMemory(LIMIT)
    assert ask(memory, Holder(), LIMIT)
    assert memory.is_full
    assert ask(memory, Holder(), PARK_BYTES, PARK_BYTES)


@run_with(lambda test: run(test()))
async def test_a_frame_as_large_as_the_limit_gets_in_when_it_is_alone() -> None:
    memory = FrameMemory(LIMIT)
    small, large = Holder(), Holder()
    assert ask(memory, small, 100, 100)
    assert not ask(memory, large, 5 * LIMIT)
    memory.release(small)
    assert large.grants == 1


@run_with(lambda test: run(test()))
async def test_half_sent_frames_that_stand_still_lose_their_memory_to_who_waits() -> None:
    memory = FrameMemory(LIMIT)
    stalled, moving, waiting = Holder(), Holder(), Holder()
    assert ask(memory, stalled, 5 * MEBIBYTE)
    assert ask(memory, moving, 5 * MEBIBYTE)
    await pass_time(10 * STALL_S)
    assert stalled.loss is None, "no other needs it"
    assert not ask(memory, waiting, 5 * MEBIBYTE)
    for _ in range(2):
        assert ask(memory, moving, 5 * MEBIBYTE)
        await pass_time(1.1)
    assert stalled.loss is not None
    assert "did not go on" in stalled.loss
    assert (moving.loss, waiting.loss, waiting.grants) == (None, None, 1)


@run_with(lambda test: run(test()))
async def test_a_request_waits_for_many_half_sent_frames_little_longer_than_for_one() -> None:
    memory, loop = FrameMemory(10 * LIMIT), asyncio.get_running_loop()
    half_sent = [Holder() for _ in range(20)]
    for holder in half_sent:
        ask(memory, holder, 4 * LIMIT)  # two have room at a time
    honest, began = Holder(), loop.time()
    assert not ask(memory, honest, 4 * LIMIT)
    while not honest.grants:
        await pass_time(0.1)
    assert loop.time() - began <= 4 * STALL_S, "not STALL_S for each pair"
    assert sum(holder.loss is not None for holder in half_sent) >= len(half_sent) - 1


@run_with(lambda test: run(test()))
async def test_a_few_bytes_now_and_then_are_no_progress() -> None:
    memory = FrameMemory(LIMIT)
    dripping, waiting = Holder(), Holder()
    assert ask(memory, dripping, LIMIT)
    assert not ask(memory, waiting, LIMIT)
    state = FrameState(is_unfinished=True, is_new=False, received_bytes=dripping.received_bytes)
    for byte in range(2 * int(STALL_S) * 10):
        if dripping.loss is None:
            memory.hold(dripping, CHUNK_BYTES, LIMIT, state._replace(received_bytes=state.received_bytes + byte))
        await pass_time(0.1)
    assert dripping.loss is not None
    assert "did not go on" in dripping.loss
    assert waiting.grants == 1


@run_with(lambda test: run(test()))
async def test_a_frame_that_trickles_in_is_given_up_while_others_wait() -> None:
    memory = FrameMemory(LIMIT)
    trickling, waiting = Holder(), Holder()
    assert ask(memory, trickling, LIMIT)
    assert not ask(memory, waiting, LIMIT)
    seconds = 0.0
    while trickling.loss is None:
        assert ask(memory, trickling, LIMIT)
        await pass_time(0.5)
        seconds += 0.5
        assert seconds < 2 * FRAME_S
    assert seconds >= FRAME_S - 1
    assert "not complete" in trickling.loss
    assert waiting.grants == 1


@run_with(lambda test: run(test()))
async def test_who_waits_is_not_blamed_for_it() -> None:
    memory = FrameMemory(LIMIT)
    moving, waiting = Holder(), Holder()
    assert ask(memory, moving, LIMIT)
    assert not ask(memory, waiting, LIMIT)
    for _ in range(2 * int(FRAME_S - 5)):
        assert ask(memory, moving, LIMIT)
        await pass_time(0.5)
    memory.release(moving)
    await pass_time(3)
    assert (waiting.loss, waiting.grants) == (None, 1)


@run_with(lambda test: run(test()))
async def test_small_unfinished_frames_are_bounded_as_well() -> None:
    memory = FrameMemory(LIMIT)
    holders = [Holder() for _ in range(3 * LIMIT // PARK_BYTES)]
    for holder in holders:
        assert ask(memory, holder, PARK_BYTES, PARK_BYTES)
        assert memory.used_bytes <= 2 * LIMIT
    lost = [holder.loss is not None for holder in holders]
    assert lost == sorted(lost, reverse=True), "the oldest go first"
    await pass_time(STALL_S + 2)
    assert memory.used_bytes <= LIMIT


@run_with(lambda test: run(test()))
async def test_whole_frames_of_a_busy_connection_are_counted_but_not_given_up() -> None:
    memory = FrameMemory(LIMIT)
    busy, waiting = Holder(), Holder()
    assert memory.hold(
        busy, LIMIT // 2, LIMIT // 2, FrameState(is_unfinished=False, is_new=True, received_bytes=LIMIT // 2)
    )
    assert not ask(memory, waiting, LIMIT)
    await pass_time(2 * FRAME_S)
    assert busy.loss is None
    memory.release(busy)
    assert waiting.grants == 1


@pytest.mark.parametrize("count", [LIMIT // 2 + 1, LIMIT])
@run_with(lambda test: run(test()))
async def test_requests_in_flight_count_and_make_reads_smaller(count: int) -> None:
    memory = FrameMemory(LIMIT)
    waiting = Holder()
    memory.add_in_flight(count)
    assert memory.pool.read_bytes < READ_BYTES
    assert not ask(memory, waiting, LIMIT)
    memory.release(waiting)
    assert not ask(memory, waiting, LIMIT)
    memory.remove_in_flight(count)
    assert waiting.grants == 1
    memory.release(waiting)
    assert (memory.used_bytes, memory.pool.read_bytes) == (0, READ_BYTES)


@run_with(lambda test: run(test()))
async def test_a_peer_that_sends_frame_after_frame_is_not_taken_for_a_slow_one() -> None:
    memory = FrameMemory(LIMIT)
    steady, waiting = Holder(), Holder()
    assert ask(memory, steady, LIMIT)
    assert not ask(memory, waiting, LIMIT)
    for _ in range(4 * int(FRAME_S)):
        assert memory.hold(steady, CHUNK_BYTES, LIMIT, unfinished(steady, is_new=True))
        await pass_time(0.5)
    assert steady.loss is None
    # A frame that needs less than the one before it makes room.
    assert memory.hold(steady, 100, 100, unfinished(steady, is_new=True))
    assert waiting.grants == 0
    memory.release(steady)
    assert waiting.grants == 1
