from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from crabka.testing import SimulationDeadlockError, VirtualTimeLoop
from tests.support.async_tests import run_with, virtual_time


def test_a_year_passes_in_no_time() -> None:
    loop = VirtualTimeLoop()

    async def main() -> float:
        await asyncio.sleep(365 * 24 * 3600)
        return loop.time()

    assert loop.run(main()) == pytest.approx(365 * 24 * 3600)


def test_short_timers_work_after_years() -> None:
    loop = VirtualTimeLoop()

    async def main() -> float:
        await asyncio.sleep(30 * 365 * 24 * 3600)
        started = loop.time()
        for _ in range(1000):
            await asyncio.sleep(0.001)
        return loop.time() - started

    assert loop.run(main()) == pytest.approx(1.0, abs=0.002)


def test_timers_fire_in_the_order_of_their_times() -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def note(name: str, delay: float) -> None:
            await asyncio.sleep(delay)
            seen.append(name)

        await asyncio.gather(note("late", 10.0), note("early", 0.001), note("middle", 5.0))
        return seen

    assert VirtualTimeLoop().run(main()) == ["early", "middle", "late"]


@run_with(virtual_time)
async def test_timeouts_work_in_virtual_time(loop: VirtualTimeLoop, /) -> None:

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.sleep(60)
    assert loop.time() == pytest.approx(30)


def test_deadlock_is_reported_with_the_tasks_that_wait() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_nothing(), name="the-stuck-one")

    with pytest.raises(SimulationDeadlockError, match=r"the-stuck-one in .*wait_for_nothing:\d+"):
        VirtualTimeLoop().run(main())


def test_tasks_left_behind_are_cancelled_and_the_loop_is_closed() -> None:
    loop = VirtualTimeLoop()
    cancelled: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append("background")
            raise

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        return task

    assert loop.run(main()).cancelled()
    assert cancelled == ["background"]
    assert loop.is_closed()


def test_errors_come_out_of_run() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        VirtualTimeLoop().run(main())


@run_with(virtual_time)
async def test_threads_and_sockets_are_refused() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(RuntimeError, match="InlineThreads"):
        await asyncio.to_thread(int)
    with pytest.raises(RuntimeError, match="SimulatedNetwork"):
        await loop.create_connection(asyncio.Protocol, "127.0.0.1", 1)
    with pytest.raises(RuntimeError, match="SimulatedNetwork"):
        await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    with pytest.raises(RuntimeError, match="SimulatedNetwork"):
        await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0))
    with pytest.raises(RuntimeError, match="SimulatedNetwork"):
        await loop.getaddrinfo("localhost", 1)


def test_calls_from_other_threads_are_refused() -> None:
    loop = VirtualTimeLoop()
    seen: list[object] = []

    def call() -> None:
        with pytest.raises(RuntimeError, match="InlineThreads"):
            loop.call_soon_threadsafe(seen.append, "other")
        seen.append("refused")

    async def main() -> None:
        loop.call_soon_threadsafe(seen.append, "own")
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        await asyncio.sleep(0)

    loop.run(main())
    assert seen == ["refused", "own"]


ORDER_PROGRAM = """
import asyncio
from crabka.testing import VirtualTimeLoop

async def wait(seen, number):
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        seen.append(number)
        raise

async def main():
    ballast = [object() for _ in range({ballast})]
    seen = []
    async def fail():
        await asyncio.sleep(1)
        raise ValueError
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(wait(seen, number))
                ballast.append(bytearray({ballast}))
            group.create_task(fail())
    except* ValueError:
        pass
    done, _ = await asyncio.wait([asyncio.create_task(asyncio.sleep(0, number)) for number in range(50)])
    print(seen, [task.result() for task in done])

VirtualTimeLoop().run(main())
"""


def test_sets_of_tasks_have_the_same_order_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", ORDER_PROGRAM.replace("{ballast}", str(ballast))],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for ballast in (1, 1000)
    }
    assert len(outputs) == 1
    assert outputs.pop().startswith("[0, 1, 2, ")


def test_what_cancelled_tasks_begin_is_cancelled_as_well() -> None:
    loop = VirtualTimeLoop()
    ended: list[str] = []
    begun: list[asyncio.Task[None]] = []

    async def wait(name: str, successor: str = "") -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
            if successor:
                begun.append(asyncio.ensure_future(wait(successor)))
                await asyncio.sleep(0)

    async def main() -> None:
        begun.append(asyncio.ensure_future(wait("first", "second")))
        await asyncio.sleep(1)

    loop.run(main())
    assert ended == ["first", "second"]
    assert all(task.done() for task in begun)
