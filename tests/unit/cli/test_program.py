"""Suggested commands begin with what starts this program again."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli import program
from crabka.cli.program import as_typed, command_line, note_typed, typed_program


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an environment in `.venv`, which is not on PATH."""
    binaries = tmp_path / ".venv/bin"
    binaries.mkdir(parents=True)
    for name in ("crabka", "python"):
        (binaries / name).write_text("#!/bin/sh\n")
        (binaries / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


@pytest.mark.parametrize("script", [".venv/bin/crabka", "{home}/.venv/bin/crabka", "{home}/crabka/cli/__main__.py"])
def test_a_program_beside_path_is_named_by_its_path(home: Path, script: str) -> None:
    assert typed_program(script.format(home=home), str(home / ".venv/bin/python")) == ".venv/bin/crabka"


def test_a_program_on_path_is_named_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / ".venv/bin"))
    assert typed_program(str(home / ".venv/bin/crabka"), "python") == "crabka"
    assert typed_program("crabka/cli/__main__.py", str(home / ".venv/bin/python")) == "crabka"


def test_a_program_elsewhere_keeps_its_whole_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "a dir").mkdir()
    monkeypatch.chdir(home / "a dir")
    assert typed_program(str(home / ".venv/bin/crabka"), "python") == f"{home}/.venv/bin/crabka"


def test_a_program_in_the_working_directory_has_a_dot(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home / ".venv/bin")
    assert typed_program(str(home / ".venv/bin/crabka"), "python") == "./crabka"


def test_a_module_without_a_command_is_started_as_a_module(home: Path) -> None:
    assert typed_program("crabka/cli/__main__.py", str(home / "python")) == f"{home}/python -m crabka.cli"


def test_only_suggestions_are_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "crabka cannot start: see `crabka quorum repair` and crabka.log"
    assert as_typed(text) == text
    note_typed([".venv/bin/crabka"])
    assert as_typed(text) == "crabka cannot start: see `.venv/bin/crabka quorum repair` and crabka.log"
    assert command_line("topics list") == ".venv/bin/crabka topics list"
    monkeypatch.setattr(program, "_typed", "crabka")
    assert command_line("topics list") == "crabka topics list"
