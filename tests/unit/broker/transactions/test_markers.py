"""Markers are sent until they are written."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from crabka.broker.transactions.markers import MarkerDelivery
from crabka.broker.transactions.ports import TxnMarker
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import VirtualTimeLoop
from tests.support.coordinators.transactions import T0, T1, ControlledMarkers

MARKER = TxnMarker(1, 2, 3, True, (T0, T1), 2)


class Script(ControlledMarkers):
    """Gives one set of answers after the other, then none."""

    def __init__(self, *rounds: dict[TopicPartition, ErrorCode] | Exception) -> None:
        super().__init__()
        self.rounds = list(rounds)

    async def write(self, markers: Any) -> list[dict[TopicPartition, ErrorCode]]:
        now = self.rounds.pop(0) if self.rounds else {}
        if isinstance(now, Exception):
            raise now
        self.answers = now
        return await super().write(markers)


def deliver(writer: Script, *, exists: bool = True, wanted: Callable[[], bool] = lambda: True) -> bool:
    delivery: Coroutine[Any, Any, bool] = MarkerDelivery(writer, lambda _topic: exists).deliver(MARKER, wanted)
    return VirtualTimeLoop().run(delivery)


def test_only_partitions_that_are_left_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    writer = Script({T1: ErrorCode.not_leader_or_follower}, {T1: ErrorCode.kafka_storage_error}, {})
    assert deliver(writer)
    assert [marker.partitions for marker in writer.written] == [(T0, T1), (T1,), (T1,)]
    assert len(caplog.records) == 1


def test_a_writer_that_fails_is_tried_again() -> None:
    writer = Script(OperationError(ErrorCode.broker_not_available), OSError("gone"), KeyError("a bug"), {})
    assert deliver(writer)
    assert len(writer.written) == 1


def test_a_topic_that_is_deleted_needs_no_marker() -> None:
    gone = {T0: ErrorCode.unknown_topic_or_partition}
    assert deliver(Script(gone), exists=False)
    waiting = Script(gone)
    assert deliver(waiting)
    assert [marker.partitions for marker in waiting.written] == [(T0, T1), (T0,)]


@pytest.mark.parametrize("code", [ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced])
def test_a_marker_that_was_overtaken_is_given_up(code: ErrorCode) -> None:
    writer = Script({T1: code})
    assert not deliver(writer)
    assert len(writer.written) == 1


def test_an_unneeded_marker_is_not_sent() -> None:
    writer = Script()
    assert not deliver(writer, wanted=lambda: False)
    assert writer.written == []
