"""Which session a job gets; tests/spark runs jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession

from crabka.spark.session import job_session


@dataclass
class FakeSession:
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True


@dataclass
class FakeBuilder:
    called: dict[str, str] = field(default_factory=dict)
    session: FakeSession = field(default_factory=FakeSession)

    def appName(self, name: str) -> FakeBuilder:  # noqa: N802 - as Spark calls it
        self.called["name"] = name
        return self

    def config(self, key: str, value: str) -> FakeBuilder:
        self.called[key] = value
        return self

    def master(self, url: str) -> FakeBuilder:
        self.called["master"] = url
        return self

    def remote(self, url: str) -> FakeBuilder:
        self.called["remote"] = url
        return self

    def getOrCreate(self) -> FakeSession:  # noqa: N802 - as Spark calls it
        return self.session


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBuilder]:
    fake = FakeBuilder()
    monkeypatch.setattr(SparkSession, "builder", fake)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.delenv("SPARK_ENV_LOADED", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "placeholder")
    monkeypatch.delenv("PYSPARK_PYTHON")
    yield fake
    assert fake.session.stopped


def test_a_job_makes_a_session_on_this_machine_and_stops_it(builder: FakeBuilder) -> None:
    with job_session("job", settings={"spark.x": "1"}) as session:
        assert session is builder.session  # type: ignore[comparison-overlap]
        assert not builder.session.stopped
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert (builder.called["name"], builder.called["master"], builder.called["spark.x"]) == ("job", "local[*]", "1")


@pytest.mark.parametrize(
    ("master", "key"), [("spark://host:7077", "master"), ("local[2]", "master"), ("sc://host", "remote")]
)
def test_a_master_is_used_as_it_is_named(builder: FakeBuilder, master: str, key: str) -> None:
    with job_session("job", master):
        assert builder.called[key] == master


def test_spark_submit_decides_about_the_master(builder: FakeBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_ENV_LOADED", "1")
    with job_session("job"):
        assert "master" not in builder.called


def test_a_session_that_is_there_is_used_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    active = FakeSession()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: active)
    with job_session("job") as session:
        assert session is active  # type: ignore[comparison-overlap]
    assert not active.stopped
