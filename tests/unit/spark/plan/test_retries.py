from __future__ import annotations

import pytest

from crabka._kio import ErrorCode
from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.spark.plan.retries import with_retries
from crabka.spark.source.options import SourceOptions

OPTIONS = SourceOptions.parse(
    {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "t",
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "0",
    },
    streaming=False,
)


def test_a_question_is_asked_as_often_as_the_options_say() -> None:
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        if len(asked) < 3:
            raise ClientNetworkError("nobody there")
        return "answer"

    assert with_retries(OPTIONS, ask) == "answer"
    asked.clear()

    def fail() -> str:
        asked.append(1)
        raise ClientNetworkError("nobody there")

    with pytest.raises(ClientNetworkError):
        with_retries(OPTIONS, fail)
    assert len(asked) == 3


def test_what_time_does_not_heal_is_not_asked_again() -> None:
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        raise OperationError(ErrorCode.topic_authorization_failed, "no")

    with pytest.raises(OperationError):
        with_retries(OPTIONS, ask)
    assert len(asked) == 1
