"""What an upload reads, and the shares of memory: bounded, in the order of requests, given back whatever happens."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import obstore
import pytest

from crabka.remote.backends.uploads import (
    PiecesInFlight,
    UploadMemory,
    index_sources,
    opened,
    pieces,
    read_source,
)
from crabka.remote.segments import IndexType
from crabka.testing import MemoryFileSystem
from tests.support.nodes.process import wait_until
from tests.support.tiers.segments import write_segment


def test_all_that_accompanies_a_segment_is_named() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    read = {kind: read_source(fs, source) for kind, source in index_sources(segment.data).items()}
    assert read == {kind: content for kind, content in segment.contents.items() if kind is not None}


def test_a_missing_transaction_index_is_left_out() -> None:
    segment = write_segment(MemoryFileSystem(), "/local", aborted=False)
    assert set(index_sources(segment.data)) == set(IndexType) - {IndexType.TRANSACTION}


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 40])
def test_pieces_give_the_file_in_order(size: int) -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=bytes(range(size)))
    with opened(fs, segment.data.log_segment) as file:
        found = list(pieces(file, size, 10))
    assert b"".join(found) == segment.log
    assert [len(piece) for piece in found] == [min(10, size - start) for start in range(0, size, 10)]


def test_a_file_that_shrinks_while_it_is_read_is_an_error() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=b"0123456789")
    with opened(fs, segment.data.log_segment) as file, pytest.raises(OSError, match="ends before 15") as failure:
        list(pieces(file, 20, 5))
    assert failure.value.errno == errno.EIO


def test_a_file_is_closed_after_an_error() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    with pytest.raises(ValueError, match="stop"), opened(fs, segment.data.log_segment) as file:
        raise ValueError("stop")
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.size()


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


def test_bytes_count_until_their_memory_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.remote.backends.uploads._PATIENCE_S", 0)
    flight = PiecesInFlight()
    held = [flight.track(b"same"), flight.track(b"same"), flight.track(b"more of it")]
    assert flight.wait(18)
    assert not flight.wait(17)
    del held[0]
    assert flight.wait(14)
    assert not flight.wait(13)
    held.clear()
    assert flight.wait(0)


def test_waiting_ends_when_another_thread_lets_go() -> None:
    flight = PiecesInFlight()
    held = [flight.track(b"12345678")]
    waits = threading.Event()

    def let_go() -> None:
        waits.wait()
        held.clear()

    thread = threading.Thread(target=let_go)
    thread.start()
    waits.set()
    assert flight.wait(0)
    thread.join()


def test_what_obstore_holds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.remote.backends.uploads._PATIENCE_S", 0)
    flight = PiecesInFlight()
    held = obstore.Bytes(flight.track(b"0123456789"))
    part = held[3:5:1]
    del held
    assert not flight.wait(9)
    assert bytes(part) == b"34"
    del part
    assert flight.wait(0)
