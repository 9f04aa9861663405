"""The ports of a node that may be killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from crabka.embedded.nodes.life import Life
from tests.support.async_tests import run_with
from tests.support.wire.net import LOOPS

on_each_loop = pytest.mark.parametrize("loop_name", list(LOOPS))


def on_loop(test: Callable[[], Coroutine[Any, Any, None]], loop_name: str) -> None:
    """Run a test as the only task of its loop: a burial ends all others."""
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        runner.run(test())


@on_each_loop
@run_with(on_loop)
async def test_after_a_cut_nothing_reaches_the_disk_and_what_was_written_stays(tmp_path: Path) -> None:
    life = Life()
    fs = life.runtime.fs
    file = fs.open(f"{tmp_path}/log", create=True)
    file.pwritev([b"written"], 0)
    lock = fs.lock(f"{tmp_path}/.lock")
    life.cut_off()
    refused: list[Callable[[], object]] = [
        lambda: fs.open(f"{tmp_path}/new", create=True),
        lambda: fs.rename(f"{tmp_path}/log", f"{tmp_path}/other"),
        lambda: fs.unlink(f"{tmp_path}/log"),
        lambda: fs.rmtree(str(tmp_path)),
        lambda: fs.makedirs(f"{tmp_path}/new"),
        lambda: fs.lock(f"{tmp_path}/.other"),
    ]
    for change in refused:
        with pytest.raises(OSError, match="killed"):
            change()
    await life.bury()
    for each in (file, lock):
        with pytest.raises(OSError, match="Bad file"):
            each.pwritev([b"late"], 0)
    assert (tmp_path / "log").read_bytes() == b"written"
    next_life = Life()
    next_life.runtime.fs.lock(f"{tmp_path}/.lock").close()
    next_life.close()


@on_each_loop
@run_with(on_loop)
async def test_a_cut_closes_listeners_and_connections() -> None:
    life, other = Life(), Life()
    closed = asyncio.Event()

    class Peer(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            closed.set()

    listener = await other.runtime.network.listen(Peer, "127.0.0.1", 0)
    own = await life.runtime.network.listen(Peer, "127.0.0.1", 0)
    await life.runtime.network.connect(asyncio.Protocol, "127.0.0.1", listener.port)
    life.cut_off()
    await closed.wait()
    with pytest.raises(OSError, match="Network is down"):
        await life.runtime.network.connect(asyncio.Protocol, "127.0.0.1", listener.port)
    with pytest.raises(ConnectionRefusedError):
        await other.runtime.network.connect(asyncio.Protocol, "127.0.0.1", own.port)
    listener.close()
    await life.bury()
    other.close()


@on_each_loop
@run_with(on_loop)
async def test_tasks_and_threads_end_and_jobs_that_wait_do_not_begin() -> None:
    life = Life()
    pool = life.runtime.new_pool(1, "small")
    began, may_end, done = threading.Event(), threading.Event(), list[str]()

    def slow() -> None:
        began.set()
        may_end.wait()
        done.append("slow")

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # As a clean-up that waits for a thread.
            await asyncio.Event().wait()

    stuck = asyncio.ensure_future(stubborn())
    working, waiting = pool.submit(slow), pool.submit(done.append, "waited")
    await asyncio.to_thread(began.wait)
    life.cut_off()
    threading.Timer(0.01, may_end.set).start()
    await life.bury()
    assert done == ["slow"]
    assert stuck.done()
    assert waiting.cancelled()
    assert not working.done() or working.result() is None
