"""What needs no Spark; tests/spark runs tasks."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.spark.lake.spark_runner import SparkRunner


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
