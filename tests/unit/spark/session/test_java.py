from __future__ import annotations

from pathlib import Path

import pytest

from crabka.spark.session.java import java_problem, java_version


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def _install(home: Path, says: str) -> None:
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("not found", None),
    ],
)
def test_the_version_is_the_major_one(text: str, version: int | None) -> None:
    assert java_version(text) == version


def test_a_new_enough_java_is_no_problem(home: Path) -> None:
    _install(home, 'openjdk version "17.0.1"')
    assert java_problem() is None


@pytest.mark.parametrize(
    ("says", "reason"), [('java version "1.8.0_402"', "is Java 8"), ("hello", "does not say its version")]
)
def test_another_java_is_named(home: Path, says: str, reason: str) -> None:
    _install(home, says)
    problem = java_problem()
    assert problem is not None
    assert reason in problem
    assert str(home) in problem


def test_a_java_home_without_java_is_named(home: Path) -> None:
    assert "does not run" in str(java_problem())


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "set JAVA_HOME" in str(java_problem())
