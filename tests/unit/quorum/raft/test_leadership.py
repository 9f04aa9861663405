from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.errors import OperationError
from crabka.kraft.actions import AppendControl, KRaftVersionChange
from crabka.metadata.records import NoOpRecord
from crabka.ports import Runtime
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.applier import MetadataApplier
from crabka.quorum.raft.leadership import RaftLeadership
from crabka.quorum.raft.log import RaftLog
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.storage import MetadataStorage
from tests.support.async_tests import run_with
from tests.support.quorum.node import DIRECTORY, formatted_disk, new_topic, run_node


class FakeCore:
    """Leads an epoch that starts at offset 0, or not at all."""

    is_leader = True
    is_voter = True
    epoch = 3

    @property
    def epoch_start_offset(self) -> int | None:
        return 0 if self.is_leader else None


class Bench:
    """A leader whose writes and commits the test makes itself."""

    def __init__(self, runtime: Runtime) -> None:
        settings = MetadataLogSettings(max_idle_interval_ms=500)
        storage = MetadataStorage.open(runtime.fs, DIRECTORY, settings, now_ms=10)
        self.core = FakeCore()
        self.log = RaftLog(storage)
        self.applier = MetadataApplier(storage)
        self.leading = RaftLeadership(runtime, storage, self.applier, self.core, 1)  # type: ignore[arg-type]

    def write(self) -> None:
        batches = self.leading.take_unwritten()
        if batches:
            self.log.append_batches(batches, 10)

    def commit(self) -> None:
        self.write()
        self.applier.advance(self.log.end_offset)
        self.leading.settle(self.applier.applied_to)
        self.leading.update(self.log.end_offset)

    def activate(self) -> None:
        self.leading.append_control(self.log, AppendControl(3, 0, (KRaftVersionChange(1),)), 10)
        self.commit()
        assert self.leading.active_epoch is None
        self.commit()
        assert self.leading.active_epoch == 3


def run(main: Any) -> None:
    async def wrapped(runtime: Runtime) -> None:
        await main(Bench(runtime))

    run_node(formatted_disk(), wrapped)


@run_with(run)
async def test_appends_are_taken_once_the_opening_records_are_applied(bench: Bench, /) -> None:
    with pytest.raises(OperationError):
        await bench.leading.append(new_topic("early", 1), None)
    bench.activate()
    assert bench.applier.image.features.metadata_version == 30
    done = bench.leading.append(new_topic("t", 1), None)
    bench.write()
    assert not done.done()
    bench.commit()
    assert await done == bench.log.end_offset - 1


@run_with(run)
async def test_a_control_record_takes_its_turn_among_appends(bench: Bench, /) -> None:
    bench.activate()
    first = bench.leading.append(new_topic("t", 1), None)
    bench.write()
    bench.leading.append_control(bench.log, AppendControl(3, bench.log.end_offset, (KRaftVersionChange(1),)), 10)
    second = bench.leading.append(new_topic("u", 2), None)
    bench.commit()
    assert await second == await first + 3
    assert bench.applier.image.offset == bench.log.end_offset - 1


@run_with(run)
async def test_a_leader_that_removes_itself_appends_nothing_behind_its_removal(bench: Bench, /) -> None:
    bench.activate()
    before = bench.leading.append(new_topic("t", 1), None)
    bench.write()
    bench.core.is_voter = False
    with pytest.raises(OperationError) as caught:
        await bench.leading.append(new_topic("u", 2), None)
    assert caught.value.error_code is ErrorCode.not_controller
    assert bench.leading.idle_deadline_ms is None
    bench.commit()
    assert await before == bench.log.end_offset - 1


@run_with(run)
async def test_the_end_of_leadership_fails_every_waiter(bench: Bench, /) -> None:
    reported: list[str] = []
    bench.activate()
    bench.leading.listeners.append((lambda _epoch: None, lambda: reported.append("over")))
    written = bench.leading.append(new_topic("t", 1), None)
    bench.write()
    unwritten = bench.leading.append(new_topic("u", 2), None)
    bench.core.is_leader = False
    bench.leading.end()
    for done in (written, unwritten, bench.leading.append(new_topic("v", 3), None)):
        with pytest.raises(OperationError) as caught:
            await done
        assert caught.value.error_code is ErrorCode.not_controller
    assert reported == ["over"]
    assert not bench.leading.has_unwritten
    assert bench.leading.idle_deadline_ms is None
    bench.leading.end()
    assert reported == ["over"]


@run_with(run)
async def test_an_append_may_time_out(bench: Bench, /) -> None:
    bench.activate()
    with pytest.raises(OperationError) as caught:
        await bench.leading.append(new_topic("t", 1), 100)
    assert caught.value.error_code is ErrorCode.request_timed_out
    bench.commit()
    assert "t" in bench.applier.image.topics.by_name


@run_with(run)
async def test_an_idle_record_is_due_after_the_interval(bench: Bench, /) -> None:
    assert bench.leading.idle_deadline_ms is None
    bench.activate()
    due = bench.leading.idle_deadline_ms
    assert due is not None
    assert not bench.leading.maybe_append_idle(due - 1)
    assert bench.leading.maybe_append_idle(due)
    assert bench.leading.has_unwritten


@run_with(run)
async def test_waiting_ends_with_the_appends_or_the_time(bench: Bench, /) -> None:
    bench.activate()
    await bench.leading.wait_settled(100)
    done = bench.leading.append([NoOpRecord()], None)
    await bench.leading.wait_settled(100)
    assert not done.done()
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    bench.leading.waiting_for_active.append(waiter)
    bench.leading.fail_all(OperationError(ErrorCode.not_controller))
    for failed in (done, waiter):
        with pytest.raises(OperationError):
            await failed


@run_with(run)
async def test_an_append_needs_a_record(bench: Bench, /) -> None:
    bench.activate()
    with pytest.raises(ValueError, match="at least one"):
        bench.leading.append([], None)
