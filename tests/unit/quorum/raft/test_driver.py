"""The driver's duties, with a scripted core: what is done in which order, and what is stepped next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.errors import CrabkaError, OperationError, StorageError
from crabka.kraft.actions import (
    Action,
    AdvanceHighWatermark,
    AppendControl,
    AppendRecords,
    ElectionState,
    LeaderChange,
    PersistElection,
    Reply,
    Send,
    TruncateLog,
)
from crabka.kraft.events import (
    Event,
    LogAppended,
    LogFlushed,
    LogTruncated,
    RequestFailed,
    ShutdownRequested,
    TimePassed,
)
from crabka.kraft.messages import DescribeRequest, LeaderHint, VersionsRequest, VersionsResponse
from crabka.kraft.roles import RoleName
from crabka.kraft.voter_history import VoterHistory
from crabka.kraft.voters import Peer, VoterEndpoint
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.ports import Runtime
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.raft.driver import RaftDriver, RaftReplicaFiles
from crabka.quorum.raft.log import RaftLog
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.state_file import ElectionFile
from crabka.quorum.storage import MetadataStorage
from crabka.records.builder import build_batch
from crabka.records.record import Record
from crabka.testing.faulty_file_system import FaultRule, FaultyFileSystem
from crabka.testing.inline_threads import InlineThreads
from tests.support.async_tests import run_with
from tests.support.quorum.node import DIRECTORY, LOG_DIRECTORY, QUIET, formatted_disk, run_node

ANSWER = VersionsResponse(error=ErrorCode.none)


class ScriptedCore:
    """Answers each kind of event with the actions that a test wrote down for it, once."""

    is_leader = False
    epoch = 1
    epoch_start_offset = None
    high_watermark = None
    leader_high_watermark = None
    role = RoleName.FOLLOWER
    may_stop = True
    next_deadline_ms: int | None = None
    leader = LeaderHint(1)

    def __init__(self) -> None:
        self.history = VoterHistory()
        self.script: list[list[Action]] = []
        self.events: list[Event] = []

    def step(self, event: Event, now_ms: int) -> list[Action]:
        self.events.append(event)
        if self.next_deadline_ms is not None and self.next_deadline_ms <= now_ms:
            self.next_deadline_ms = None
        return self.script.pop(0) if self.script else []


class UnreachableDialer:
    async def dial(self, endpoint: VoterEndpoint, timeout_ms: int) -> Any:
        raise OperationError(ErrorCode.network_exception, endpoint.host)


class Bench:
    def __init__(self, runtime: Runtime) -> None:
        storage = MetadataStorage.open(runtime.fs, DIRECTORY, QUIET, now_ms=10)
        self.runtime = runtime
        self.core = ScriptedCore()
        self.log = RaftLog(storage)
        self.election = ElectionFile(runtime.fs, LOG_DIRECTORY)
        files = RaftReplicaFiles(storage, self.log, self.core, self.election)  # type: ignore[arg-type]
        self.driver = RaftDriver(runtime, files, QuorumOptions(log=QUIET, dialer=UnreachableDialer()))
        self.driver.start()

    async def play(self, *steps: list[Action], event: Event | None = None) -> list[Event]:
        """Let the first event have the first actions, what follows from it the next, and return all events."""
        await asyncio.sleep(0.1)
        self.core.events.clear()
        self.core.script = list(steps)
        self.driver.put(event or TimePassed())
        await asyncio.sleep(0.1)
        return self.core.events


def run(main: Callable[[Bench], Coroutine[Any, Any, None]], fs: Any = None) -> None:
    async def wrapped(runtime: Runtime) -> None:
        bench = Bench(runtime)
        await main(bench)
        await bench.driver.stop(OperationError(ErrorCode.not_controller, "closed"))

    run_node(fs or formatted_disk(), wrapped, seed=4)


def batch(base_offset: int, epoch: int = 1) -> bytes:
    row = Record(base_offset, 10, None, encode_record(NoOpRecord()))
    return build_batch([row], base_offset=base_offset, leader_epoch=epoch)


@run_with(run)
async def test_an_answer_waits_until_the_vote_is_on_disk(bench: Bench, /) -> None:
    found: list[ElectionState | None] = []
    token: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    token.add_done_callback(lambda _: found.append(bench.election.read()))
    await bench.play([PersistElection(ElectionState(7, 2), (Reply(token, ANSWER),))])
    assert found == [ElectionState(7, 2)]


@run_with(run)
async def test_an_append_is_reported_at_once_and_its_sync_later(bench: Bench, /) -> None:
    control = AppendControl(1, 0, (LeaderChange(1, (1,), (1,)),))
    events = await bench.play([control])
    assert events == [TimePassed(), LogAppended(1), LogFlushed(1)]
    events = await bench.play([AppendRecords(1, 1, batch(1))])
    assert events == [TimePassed(), LogAppended(2), LogFlushed(2)]


@run_with(run)
async def test_events_that_follow_a_change_of_the_log_come_before_others(bench: Bench, /) -> None:
    await asyncio.sleep(0.1)
    bench.core.events.clear()
    bench.core.script = [[AppendRecords(0, 1, batch(0))]]
    bench.driver.put(TimePassed())
    bench.driver.put(RequestFailed(9))
    await asyncio.sleep(0.1)
    assert bench.core.events[:3] == [TimePassed(), LogAppended(1), RequestFailed(9)]


@run_with(run)
async def test_a_truncation_voids_the_sync_under_way(bench: Bench, /) -> None:
    await asyncio.sleep(0.1)
    bench.core.events.clear()
    bench.core.script = [[AppendRecords(0, 1, batch(0) + batch(1))], [], [TruncateLog(1)]]
    bench.driver.put(TimePassed())
    bench.driver.put(RequestFailed(9))
    await asyncio.sleep(0.1)
    assert bench.core.events == [TimePassed(), LogAppended(2), RequestFailed(9), LogTruncated(1)]
    assert bench.log.end_offset == 1


@run_with(run)
async def test_a_request_that_cannot_be_sent_fails(bench: Bench, /) -> None:
    peer = Peer(2, (VoterEndpoint("", "nowhere", 1),))
    events = await bench.play([Send(5, peer, VersionsRequest())])
    assert events == [TimePassed(), RequestFailed(5)]


@run_with(run)
async def test_the_high_watermark_moves_the_image(bench: Bench, /) -> None:
    await bench.play([AppendRecords(0, 1, batch(0))], [AdvanceHighWatermark(1)])
    assert bench.driver.applier.image.offset == 0


@run_with(run)
async def test_deadlines_are_stepped_in_time(bench: Bench, /) -> None:
    await bench.play()
    bench.core.next_deadline_ms = bench.runtime.clock.monotonic_ms() + 500
    bench.driver.wake()
    await asyncio.sleep(0.4)
    assert bench.core.events == [TimePassed()]
    await asyncio.sleep(0.11)
    assert bench.core.events == [TimePassed(), TimePassed()]


@run_with(run)
async def test_a_shutdown_waits_until_the_core_has_handed_over(bench: Bench, /) -> None:
    bench.core.may_stop = False
    asyncio.get_running_loop().call_later(0.5, setattr, bench.core, "may_stop", True)
    asyncio.get_running_loop().call_later(0.5, bench.driver.wake)
    started = asyncio.get_running_loop().time()
    await bench.driver.stop(OperationError(ErrorCode.not_controller, "closed"))
    assert 0.5 <= asyncio.get_running_loop().time() - started < 1
    assert ShutdownRequested() in bench.core.events


@run_with(run)
async def test_an_unacknowledged_shutdown_ends_after_the_request_time_out(bench: Bench, /) -> None:
    bench.core.may_stop = False
    started = asyncio.get_running_loop().time()
    await bench.driver.stop(OperationError(ErrorCode.not_controller, "closed"))
    assert 2 <= asyncio.get_running_loop().time() - started < 2.2


@run_with(run)
async def test_a_stop_waits_for_the_thread_of_a_step_that_takes_too_long(bench: Bench, /) -> None:
    """Otherwise the election would be written over that of the next process."""

    loop, threads = asyncio.get_running_loop(), bench.runtime.threads
    assert isinstance(threads, InlineThreads)
    ended: asyncio.Future[None] = loop.create_future()

    def write(*arguments: Any) -> None:
        bench.election.write(*arguments)
        threads._ends.discard(ended)
        ended.set_result(None)

    def submit(_fn: object, *arguments: Any) -> asyncio.Future[None]:
        del threads.submit  # the next job is as usual
        threads._ends.add(ended)
        loop.call_later(5, write, *arguments)
        return loop.create_future()

    threads.submit = submit  # type: ignore[method-assign, assignment]
    await bench.play([PersistElection(ElectionState(7, 2), ())])
    await bench.driver.stop(OperationError(ErrorCode.not_controller, "closed"))
    assert bench.election.read() == ElectionState(7, 2)


def test_a_disk_that_fails_ends_the_replica_before_anything_leaves() -> None:
    fs = FaultyFileSystem(formatted_disk())

    async def main(bench: Bench) -> None:
        reported: list[CrabkaError] = []
        bench.driver.on_failure = reported.append
        fs.add(FaultRule(operation="rename", path="*quorum-state*", error=5))
        token: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pending: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        bench.driver.ask(pending, pending, DescribeRequest())
        await bench.play([PersistElection(ElectionState(7), (Reply(token, ANSWER),))])
        assert not token.done()
        assert [type(error) for error in reported] == [StorageError]
        assert bench.driver.is_over
        with pytest.raises(StorageError):
            await pending

    run(main, fs)
