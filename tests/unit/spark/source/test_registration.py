from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from crabka.errors import ConfigError
from crabka.spark.session.shipping import SHIPPED
from crabka.spark.source.data_source import CrabkaDataSource
from crabka.spark.source.registration import register


class FakeSession:
    """As much of a SparkSession as registering needs."""

    def __init__(self) -> None:
        self.registered: list[type] = []
        self.settings: dict[str, str] = {}

    @property
    def dataSource(self) -> FakeSession:  # noqa: N802 - Spark's name
        return self

    @property
    def conf(self) -> FakeSession:
        return self

    def register(self, source: type) -> None:
        self.registered.append(source)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)


def test_the_format_is_known_and_no_setting_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = FakeSession()
    register(session)  # type: ignore[arg-type]
    assert session.registered == [CrabkaDataSource]
    assert session.settings == {}


class _SparkFailure(Exception):  # noqa: N818 - as Spark calls its own
    def __init__(self, desc: str) -> None:
        super().__init__(desc)
        self._desc = desc


def test_failures_of_spark_end_with_what_the_source_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    module = ModuleType("captured")
    kind = type("CapturedException", (_SparkFailure,), {})
    module.CapturedException = kind  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.errors.exceptions.captured", module)
    monkeypatch.delitem(sys.modules, "pyspark.errors.exceptions.connect", raising=False)
    register(FakeSession())  # type: ignore[arg-type]
    error = kind("Traceback (most recent call last):\ncrabka.errors.ConfigError: no such topic\n SQLSTATE: 38000")
    assert error.__notes__ == ["crabka: no such topic"]


def test_a_python_without_crabka_is_refused_with_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'crabka'\" >&2\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    with pytest.raises(ConfigError, match=f"No module named 'crabka'.*set it to {sys.executable}"):
        register(FakeSession())  # type: ignore[arg-type]


def test_a_python_needs_no_crabka_where_the_code_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python"
    other.write_text('#!/bin/sh\ncase "$2" in *crabka*) exit 1;; esac\n')
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    session = FakeSession()
    with pytest.raises(ConfigError):
        register(session)  # type: ignore[arg-type]
    session.set(SHIPPED, "true")
    register(session)  # type: ignore[arg-type]
    assert session.registered == [CrabkaDataSource]


@pytest.mark.parametrize("name", ["./environment/bin/python", "/not/on/this/machine"])
def test_a_python_of_the_executors_is_not_judged_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", name)
    register(FakeSession())  # type: ignore[arg-type]
