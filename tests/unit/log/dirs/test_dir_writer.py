from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.errors import OperationError, StorageError
from crabka.log.dirs.dir_writer import MAX_HELD_BYTES, RECOVERY_WRITE_COUNT, DirWriter
from crabka.log.partition.append import PendingAppend
from crabka.log.partition.copying import PendingCopy
from crabka.log.partition.partition_log import PartitionLog
from crabka.ports import Runtime
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import FaultRule, FaultyFileSystem, InlineThreads, MemoryFileSystem, SimulatedClock, VirtualTimeLoop
from tests.support.storage.small import LOG_DIR, NOW_MS, append, make_batch, make_context, open_test_log, read_headers

LIMIT_MS = 500


class Disk:
    """A writer and a log on a disk that can fail, in virtual time."""

    def __init__(self, *, max_delay_ms: float = 0.0) -> None:
        self.loop = VirtualTimeLoop()
        memory = MemoryFileSystem()
        memory.makedirs(LOG_DIR)
        self.fs = FaultyFileSystem(memory)
        self.threads = InlineThreads(self.loop, random.Random(1), max_delay_ms=max_delay_ms)
        # No disk asks for the network.
        runtime = Runtime(SimulatedClock(self.loop), random.Random(1), self.threads, self.fs, network=None)  # type: ignore[arg-type]
        self.failures: list[str] = []
        self.writer = DirWriter(
            runtime,
            LOG_DIR,
            slow_append_ms=LIMIT_MS,
            on_failure=lambda path, error: self.failures.append(f"{path}: {error}"),
        )
        self.log = open_test_log(make_context(self.fs))

    def defer(self) -> PendingAppend:
        return deferred(self.log)

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.run(scenario())


def deferred(log: PartitionLog) -> PendingAppend:
    pending = log.append_as_leader(make_batch(), leader_epoch=0, now_ms=NOW_MS, deferred=True)
    assert isinstance(pending, PendingAppend)
    return pending


def test_a_fast_dir_is_written_at_once() -> None:
    disk = Disk()

    async def main() -> None:
        assert (await disk.writer.append(disk.log, disk.defer())).first_offset == 0
        assert disk.threads.pending_count == 0

    disk.run(main)
    assert len(read_headers(disk.log)) == 1


def test_an_append_over_the_limit_makes_the_dir_slow(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.fs.add(FaultRule(operation="pwritev", before=lambda *_: disk.loop.advance((LIMIT_MS + 1) / 1000)))

    async def main() -> None:
        disk.writer.note_append(LIMIT_MS)
        assert not disk.writer.is_slow
        await disk.writer.append(disk.log, disk.defer())
        assert disk.writer.is_slow
        disk.writer.note_append(LIMIT_MS + 2)

    disk.run(main)
    assert len(caplog.records) == 1


def test_a_slow_dir_has_one_thread_and_keeps_the_order() -> None:
    disk = Disk(max_delay_ms=100)
    done: list[int] = []

    async def main() -> None:
        jobs = []
        for number in range(20):
            jobs.append(disk.writer.run(lambda number=number: done.append(number)))  # type: ignore[misc]
            assert disk.threads.pending_count == 1
        await asyncio.gather(*jobs)

    disk.run(main)
    assert done == list(range(20))


def test_a_dir_recovers_after_fast_writes_in_a_row() -> None:
    disk = Disk()
    disk.writer.note_append(LIMIT_MS + 1)

    async def main() -> None:
        for _ in range(RECOVERY_WRITE_COUNT):
            assert disk.writer.is_slow
            await disk.writer.append(disk.log, disk.defer())
        assert not disk.writer.is_slow

    disk.run(main)


def test_flushes_do_not_count_for_recovery() -> None:
    disk = Disk()
    disk.writer.note_append(LIMIT_MS + 1)

    async def main() -> None:
        for _ in range(RECOVERY_WRITE_COUNT):
            append(disk.log, make_batch())
            await disk.writer.flush(disk.log)
        assert disk.writer.is_slow

    disk.run(main)
    assert disk.log.recovery_point == disk.log.log_end_offset


def test_flushes_of_one_log_follow_one_another_and_share_the_next() -> None:
    disk = Disk(max_delay_ms=100)
    runs: list[int] = []
    disk.fs.add(FaultRule(operation="fsync", path="*.log", before=lambda *_: runs.append(disk.log.log_end_offset)))

    async def main() -> None:
        append(disk.log, make_batch())
        first = disk.writer.begin_flush(disk.log)
        assert first is not None
        assert disk.writer.begin_flush(disk.log) is None
        append(disk.log, make_batch())
        waiting = [asyncio.ensure_future(disk.writer.flush(disk.log)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert disk.log.recovery_point == 2
        assert disk.writer.running_flushes == []

    disk.run(main)
    assert len(runs) == 2


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_flush_that_fails_takes_the_dir_offline_and_leaves_everything_dirty(is_slow: bool) -> None:
    disk = Disk()
    disk.writer.is_slow = is_slow
    disk.fs.add(FaultRule(operation="fsync", error=errno.EIO, times=1))

    async def main() -> None:
        append(disk.log, make_batch())
        with pytest.raises(StorageError):
            await disk.writer.flush(disk.log)
        assert (disk.log.recovery_point, disk.log.leader_epochs.dirty) == (0, True)
        await disk.writer.flush(disk.log)

    disk.run(main)
    assert disk.log.recovery_point == 1
    assert len(disk.failures) == 1


def test_a_log_that_is_closed_is_not_flushed() -> None:
    disk = Disk()

    async def main() -> None:
        append(disk.log, make_batch())
        disk.log.close(clean=False)
        await disk.writer.flush(disk.log)

    disk.run(main)
    assert disk.log.recovery_point == 0


def test_a_write_continues_without_a_waiter() -> None:
    disk = Disk(max_delay_ms=100)
    disk.writer.note_append(LIMIT_MS + 1)

    async def main() -> None:
        request = asyncio.ensure_future(disk.writer.append(disk.log, disk.defer()))
        await asyncio.sleep(0)
        request.cancel()
        await disk.writer.drain()
        assert request.cancelled()

    disk.run(main)
    assert disk.log.log_end_offset == 1


@pytest.mark.parametrize("slow", [False, True])
def test_a_write_that_fails_is_a_storage_error(slow: bool) -> None:
    disk = Disk()
    disk.fs.add(FaultRule(operation="pwritev", error=errno.EIO))
    if slow:
        disk.writer.note_append(LIMIT_MS + 1)

    async def main() -> None:
        with pytest.raises(StorageError) as caught:
            await disk.writer.append(disk.log, disk.defer())
        assert caught.value.log_dir == LOG_DIR

    disk.run(main)
    assert disk.log.log_end_offset == disk.log.next_append_offset == 0
    # On the loop the caller of the append reports it.
    assert len(disk.failures) == (1 if slow else 0)


def test_a_log_that_is_closed_meanwhile_takes_no_batch() -> None:
    disk = Disk(max_delay_ms=100)
    disk.writer.note_append(LIMIT_MS + 1)

    async def main() -> None:
        request = asyncio.ensure_future(disk.writer.append(disk.log, disk.defer()))
        await asyncio.sleep(0)
        disk.log.close(clean=False)
        with pytest.raises(OperationError) as caught:
            await request
        assert caught.value.error_code is ErrorCode.not_leader_or_follower

    disk.run(main)
    assert disk.failures == []


def test_work_that_breaks_otherwise_fails_alone() -> None:
    disk = Disk()

    def breaks() -> None:
        raise ValueError("broken")

    async def main() -> None:
        first, second = disk.writer.run(breaks), disk.writer.run(lambda: None)
        with pytest.raises(ValueError, match="broken"):
            await first
        await second

    disk.run(main)
    assert disk.failures == []


@pytest.mark.parametrize("is_closed", [False, True], ids=["dropped", "closed"])
def test_work_for_which_no_thread_is_left_is_answered(is_closed: bool) -> None:
    """A pool that ends drops what waits, and refuses what comes: appends, flushes and the drain must not hang."""
    disk = Disk(max_delay_ms=100)
    disk.writer.note_append(LIMIT_MS + 1)
    submitted: list[asyncio.Future[None]] = []
    submit = disk.threads.submit

    def watched(work: Callable[[], None]) -> asyncio.Future[None]:
        if is_closed:
            raise RuntimeError("the thread pool is closed")
        submitted.append(submit(work))
        return submitted[-1]

    disk.threads.submit = watched  # type: ignore[method-assign, assignment]

    async def main() -> None:
        append(disk.log, make_batch())
        flushing = asyncio.ensure_future(disk.writer.flush(disk.log))
        appending = asyncio.ensure_future(disk.writer.append(disk.log, disk.defer()))
        await asyncio.sleep(0)
        for _ in range(2):
            if submitted:
                submitted[-1].cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            outcomes = await asyncio.gather(flushing, appending, return_exceptions=True)
            await disk.writer.drain()
        assert [getattr(each, "error_code", None) for each in outcomes] == [ErrorCode.kafka_storage_error] * 2
        assert disk.log.recovery_point == 0

    disk.run(main)
    assert disk.log.log_end_offset == 1
    assert disk.failures == []


def test_only_a_slow_dir_refuses_what_is_too_much() -> None:
    disk = Disk()
    writer = disk.writer

    async def main() -> None:
        writer.hold(MAX_HELD_BYTES)
        writer.hold(1)
        writer.note_append(LIMIT_MS + 1)
        with pytest.raises(OperationError) as caught:
            writer.hold(1)
        assert caught.value.error_code is ErrorCode.request_timed_out
        writer.release(MAX_HELD_BYTES + 1)
        writer.hold(2 * MAX_HELD_BYTES)

    disk.run(main)
    assert writer.held_bytes == 2 * MAX_HELD_BYTES


def copied(log: PartitionLog) -> PendingCopy:
    return next(iter(log.copying.copies(make_batch(base_offset=log.log_end_offset))))


@pytest.mark.parametrize("is_slow", [False, True])
def test_batches_of_a_leader_go_the_same_way(is_slow: bool) -> None:
    disk = Disk()
    disk.writer.is_slow = is_slow

    async def main() -> None:
        await disk.writer.copy(disk.log, copied(disk.log))
        await disk.writer.copy(disk.log, copied(disk.log))

    disk.run(main)
    assert len(read_headers(disk.log)) == 2


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_copy_that_fails_is_abandoned(is_slow: bool) -> None:
    disk = Disk()
    disk.writer.is_slow = is_slow
    disk.fs.add(FaultRule(operation="pwritev", error=errno.EIO, times=1))

    async def main() -> None:
        with pytest.raises(StorageError):
            await disk.writer.copy(disk.log, copied(disk.log))
        assert disk.log.next_append_offset == 0

    disk.run(main)
