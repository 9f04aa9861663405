"""Waiting for replicas to arrive in their new log dirs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from crabka.cli.log_dirs import progress as log_dir_progress
from crabka.cli.log_dirs.progress import BarPerMove, LinePerLook, SentReplica, dir_move_display, wait_until_arrived
from crabka.cli.log_dirs.view import RunningMove
from crabka.clients.admin.admin import Admin
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import DisconnectError, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation

T0 = TopicPartition("t", 0)
SENT = SentReplica(1, T0, "/b")
# What a dir holds of the replica: bytes, and whether it is the future one.
Look = dict[str, tuple[int, bool]]


def answers(*looks: Look | None) -> Any:
    steps = iter([*looks, *([looks[-1]] * 200)])

    def answer(request: ReceivedRequest) -> Any:
        look = next(steps)
        if look is None:
            raise DisconnectError
        new = request.types.new
        results = []
        for path in ("/a", "/b"):
            rows = []
            if path in look:
                size, is_future = look[path]
                replica = new(
                    "DescribeLogDirsPartition",
                    partition_index=0,
                    partition_size=size,
                    offset_lag=0,
                    is_future_key=is_future,
                )
                rows = [new("DescribeLogDirsTopic", name="t", partitions=[replica])]
            results.append(new("DescribeLogDirsResult", error_code=ErrorCode.none, log_dir=path, topics=rows))
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, results=results)

    return answer


def wait(*looks: Look | None) -> None:
    async def test(admin: Admin, _: ClientSimulation) -> None:
        await wait_until_arrived(admin, [SENT])

    with_admin(test, DESCRIBE_LOG_DIRS=answers(*looks))


def test_a_replica_has_arrived_when_it_is_no_future_one(capsys: pytest.CaptureFixture[str]) -> None:
    copying: Look = {"/a": (4096, False), "/b": (1024, True)}
    wait(copying, copying, None, {"/a": (4096, False), "/b": (4096, True)}, {"/b": (4096, False)})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "t-0 to /b: 1.0 KiB of 4.0 KiB"
    assert lines[1].startswith("t-0 to /b: 4.0 KiB of 4.0 KiB, ")
    assert lines[2:] == ["1 of 1 moves are done"]


def test_a_move_that_was_cancelled_is_not_waited_for() -> None:
    with pytest.raises(CrabkaError, match="no longer moving to /b of broker 1"):
        wait({"/a": (4096, False), "/b": (1024, True)}, {"/a": (4096, False)})


def test_one_look_at_the_wrong_moment_does_no_harm() -> None:
    wait({"/a": (10, False)}, {"/a": (10, False)}, {"/a": (10, False), "/b": (1, True)}, {"/b": (10, False)})


def test_bars_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    with dir_move_display(1) as display:
        assert isinstance(display, LinePerLook)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with dir_move_display(1) as display:
        assert isinstance(display, BarPerMove)


@pytest.fixture
def progress() -> Iterator[Progress]:
    with Progress(console=Console(quiet=True), auto_refresh=False) as shown:
        yield shown


def test_every_move_has_a_bar_that_ends_full(progress: Progress) -> None:
    bars = BarPerMove(progress)
    move = RunningMove(1, T0, "/a", "/b", 10, 40, 0)
    bars.update([move], 0)
    (bar,) = progress.tasks
    assert (bar.completed, bar.total) == (10, 40)
    bars.update([move._replace(copied_bytes=60, size_bytes=50)], 0)
    assert (bar.completed, bar.total) == (50, 50)
    bars.update([], 1)
    assert bar.finished


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_dir_progress, "PATIENCE", 2)
    with pytest.raises(CrabkaError):
        wait(None)
