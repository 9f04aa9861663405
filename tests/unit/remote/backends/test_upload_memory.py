"""Shares of the memory for uploads: bounded, in the order of asking, given back whatever happens."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from crabka.remote.backends.upload_memory import UploadMemory
from tests.support.node_process import wait_until


def test_shares_below_the_bound_are_held_at_once() -> None:
    memory = UploadMemory(100)
    with memory.share(60):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: _held_inside(memory, 40)).result(30) == 100
        assert memory.held_bytes == 60
    assert memory.held_bytes == 0


def test_who_finds_none_left_waits_and_later_ones_wait_behind() -> None:
    memory = UploadMemory(100)
    order: list[int] = []

    def upload(byte_count: int) -> None:
        with memory.share(byte_count):
            assert memory.held_bytes <= 100
            order.append(byte_count)

    with ThreadPoolExecutor(3) as pool:
        done: list[Future[None]] = []
        with memory.share(50):
            # The last two would fit, but not before the first.
            for byte_count in (90, 10, 20):
                done.append(pool.submit(upload, byte_count))
                wait_until(lambda: memory.waiting_count == len(done), "an upload that waits")
            assert order == []
        for each in done:
            each.result(30)
    assert order[0] == 90
    assert sorted(order) == [10, 20, 90]
    assert (memory.held_bytes, memory.waiting_count) == (0, 0)


def test_what_is_larger_than_the_bound_is_alone() -> None:
    memory = UploadMemory(100)
    assert _held_inside(memory, 1_000) == 100
    entered = threading.Event()

    def upload() -> None:
        with memory.share(1_000):
            entered.set()

    with ThreadPoolExecutor(1) as pool:
        with memory.share(1):
            done = pool.submit(upload)
            wait_until(lambda: memory.waiting_count == 1, "an upload that waits")
            assert not entered.is_set()
        done.result(30)


def test_a_share_comes_back_from_an_upload_that_fails() -> None:
    memory = UploadMemory(100)
    with pytest.raises(OSError, match="broken"), memory.share(100):
        raise OSError("broken")
    assert memory.held_bytes == 0


def _held_inside(memory: UploadMemory, byte_count: int) -> int:
    with memory.share(byte_count):
        return memory.held_bytes
