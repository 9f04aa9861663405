"""Waiting for replicas to move."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from crabka.cli.topics import reassignment_progress
from crabka.cli.topics.reassignment_progress import LineDisplay, move_display, wait_until_moved
from crabka.clients.admin.admin import Admin
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import DisconnectError, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation

PARTITIONS = [TopicPartition("t", index) for index in range(2)]


def _listing(request: ReceivedRequest, *adding: list[int], code: ErrorCode = ErrorCode.none) -> Any:
    new = request.types.new
    moving = [
        new(
            "OngoingPartitionReassignment",
            partition_index=index,
            replicas=[1, *each],
            adding_replicas=each,
            removing_replicas=[],
        )
        for index, each in enumerate(adding)
    ]
    topics = [new("OngoingTopicReassignment", name="t", partitions=moving)] if moving else []
    return request.types.message(throttle_time=0, error_code=code, error_message=None, topics=topics)


def test_every_change_is_a_line_and_broken_connections_are_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    def script() -> Iterator[list[list[int]] | None]:
        yield [[2, 3], [2]]
        yield [[2, 3], [2]]
        yield None
        yield [[2]]
        yield []

    steps = script()

    def answer(request: ReceivedRequest) -> Any:
        step = next(steps)
        if step is None:
            raise DisconnectError
        return _listing(request, *step)

    async def test(admin: Admin, _: ClientSimulation) -> None:
        await wait_until_moved(admin, PARTITIONS)

    with_admin(test, LIST_PARTITION_REASSIGNMENTS=answer)
    assert capsys.readouterr().err.splitlines() == [
        "0 of 2 partitions are done, 3 replicas to come",
        "1 of 2 partitions are done, 1 replicas to come",
        "2 of 2 partitions are done, 0 replicas to come",
    ]


@run_with(
    lambda test: with_admin(
        test, LIST_PARTITION_REASSIGNMENTS=lambda request: _listing(request, code=ErrorCode.unknown_server_error)
    )
)
async def test_patience_ends(admin: Admin, /) -> None:
    with pytest.raises(OperationError):
        await wait_until_moved(admin, PARTITIONS)


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with move_display(2) as lines:
        assert isinstance(lines, LineDisplay)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with move_display(2) as bar:
        assert isinstance(bar, reassignment_progress.BarDisplay)
        bar.update(2, 0)
    assert "2/2" in capsys.readouterr().err
