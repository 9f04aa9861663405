"""What needs no Spark; tests/spark runs tasks."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.syncing.spark_runner import SparkRunner
from tests.support.spark.java_errors import JavaSideError


class FakeContext:
    defaultParallelism = 7  # noqa: N815 - Spark's name


class ClassicSession:
    sparkContext = FakeContext()  # noqa: N815 - Spark's name


class ConnectSession:
    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
        raise NotImplementedError


@pytest.mark.parametrize(("session", "count"), [(ClassicSession(), 7), (ConnectSession(), 2)])
def test_parallelism_is_asked_where_there_is_a_context(session: Any, count: int) -> None:
    assert SparkRunner(session).parallelism == count


def test_nothing_to_do_starts_nothing() -> None:
    assert SparkRunner(ConnectSession()).run(None, []) == []  # type: ignore[arg-type]


DEAD_WORKER = "An error occurred\n: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"


class FailingFrame(ConnectSession):
    """A session, its frames and their rows, all of which fail in the end."""

    def range(self, *_numbers: int) -> FailingFrame:
        return self

    def mapInArrow(self, *_arguments: object) -> FailingFrame:  # noqa: N802 - Spark's name
        return self

    def toArrow(self) -> None:  # noqa: N802 - Spark's name
        raise JavaSideError(DEAD_WORKER)


def test_a_worker_that_dies_fails_the_round_and_no_more() -> None:
    job: Any = None
    split: Any = None
    with pytest.raises(LakeError, match=r"^Python worker exited unexpectedly \(crashed\)$"):
        SparkRunner(FailingFrame()).run(job, [split])  # type: ignore[arg-type]
