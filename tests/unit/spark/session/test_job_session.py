"""Which session a job gets; tests/spark runs jobs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from crabka.errors import ConfigError
from crabka.spark.session.error_texts import SparkJobError
from crabka.spark.session.job_session import job_session, require_master
from crabka.spark.session.shipping import is_shipped
from tests.support.wire.ports import free_port


@dataclass
class FakeSession:
    stopped: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    sparkContext: object = None  # noqa: N815 - Spark's name

    @property
    def conf(self) -> FakeSession:
        return self

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802 - as Spark calls it
        assert pyfile
        self.sent.append(path)

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
        self.called["master"] = self.session.settings["spark.master"] = url
        return self

    def remote(self, url: str) -> FakeBuilder:
        self.called["remote"] = url
        return self

    def getOrCreate(self) -> FakeSession:  # noqa: N802 - as Spark calls it
        os.write(2, b"a long story\n")
        return self.session


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeBuilder]:
    fake = FakeBuilder()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
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
    ("scheme", "key"), [("spark://localhost:0,", "master"), ("local[2]", "master"), ("sc://", "remote")]
)
def test_a_master_is_used_as_it_is_named(builder: FakeBuilder, scheme: str, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"{scheme}127.0.0.1:{server.getsockname()[1]}" if "://" in scheme else scheme
        with job_session("job", master) as session:
            assert builder.called[key] == master
            assert is_shipped(session) is master.startswith("spark:")


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_that_is_not_there_is_reported_at_once(scheme: str) -> None:
    port = free_port()
    with pytest.raises(ConfigError, match=f"there is no Spark at {scheme}://127.0.0.1:{port}: .*refused"):
        require_master(f"{scheme}://127.0.0.1:{port}")


def test_a_token_after_the_host_is_not_shown() -> None:
    port = free_port()
    with pytest.raises(ConfigError) as caught:
        require_master(f"sc://me:hush@127.0.0.1:{port}/;use_ssl=true;token=hush")
    assert str(caught.value).startswith(f"there is no Spark at sc://127.0.0.1:{port}: ")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("separator", [";", "?", "#"])
def test_a_token_without_a_slash_is_not_taken_for_a_port(separator: str) -> None:
    with pytest.raises(ConfigError, match="a slash ends the hosts: sc://host:port/;parameters") as caught:
        require_master(f"sc://127.0.0.1:15002{separator}token=hush")
    assert "hush" not in str(caught.value)


def test_all_masters_that_are_not_there_are_named() -> None:
    ports = free_port(), free_port()
    master = f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
    with pytest.raises(ConfigError, match=f"there is no Spark at {master}: "):
        require_master(master)


def test_what_spark_raises_becomes_one_sentence(builder: FakeBuilder, tmp_path: Path) -> None:
    with pytest.raises(SparkJobError) as raised, job_session("job"):
        raise PySparkException("Traceback (most recent call last):\nValueError: the last line")
    assert builder.session.stopped
    [log] = tmp_path.glob("crabka-spark-*.log")
    assert str(raised.value) == f"the last line (Spark's log is {log})"
    assert log.read_text() == "a long story\n"


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize("error", [None, ConfigError("of other code")])
def test_java_is_not_mentioned_if_it_is_not_to_blame(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], error: Exception | None
) -> None:
    with suppress(ConfigError), job_session("job"):
        if error is not None:
            raise error
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("builder")
def test_a_log_that_was_asked_for_stays(tmp_path: Path) -> None:
    with job_session("job", log=str(tmp_path / "spark.log")):
        pass
    assert (tmp_path / "spark.log").read_text() == "a long story\n"


def test_a_java_that_is_killed_is_reported(builder: FakeBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as java:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java))
        with pytest.raises(ConnectionRefusedError), job_session("job"):
            raise ConnectionRefusedError("of something else")
        monkeypatch.setattr(builder.session, "stop", lambda: _refuse(builder.session))
        java.kill()
        for error in (ConnectionRefusedError("of Java"), Py4JNetworkError("of Java"), Py4JError("calling o114")):
            with pytest.raises(SparkJobError, match="Java ended in the middle of the job"), job_session("job"):
                raise error


def _refuse(session: FakeSession) -> None:
    session.stopped = True
    raise ConnectionRefusedError("of Java")


@pytest.mark.parametrize("version", [None, 11])
def test_java_is_asked_for_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int | None
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if version is not None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}.0.1\"' >&2\n")
        java.chmod(0o755)
    found = "does not run" if version is None else f"is Java {version}; install one or set JAVA_HOME"
    found = f"^Spark needs Java 17 or newer, and {tmp_path}/bin/java {found}"
    with pytest.raises(ConfigError, match=found), job_session("job"):
        pass


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
