from __future__ import annotations

import os
from pathlib import Path

import pytest

from crabka.spark.java_log import LOG_VARIABLE, JavaLog


def test_errors_of_processes_go_to_the_file_only_meanwhile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before ")
    log = JavaLog(str(path))
    with log.taking_errors():
        os.system("echo inside >&2")  # noqa: S605 - as Spark starts Java
    os.write(2, b"outside")
    log.close(keep=False)
    assert path.read_bytes() == b"before inside\n"
    assert capfd.readouterr().err == "outside"


def test_the_environment_names_a_file_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG_VARIABLE, str(tmp_path / "log"))
    JavaLog().close(keep=False)
    assert (tmp_path / "log").exists()


@pytest.mark.parametrize("keep", [True, False])
def test_a_temporary_file_stays_if_somebody_may_want_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, keep: bool
) -> None:
    monkeypatch.delenv(LOG_VARIABLE, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = JavaLog()
    assert Path(log.path).parent == tmp_path
    log.close(keep=keep)
    assert Path(log.path).exists() is keep


def test_what_comes_after_the_end_goes_nowhere(tmp_path: Path) -> None:
    log = JavaLog(str(tmp_path / "log"))
    log.write("last \ud800 words")
    log.close(keep=True)
    # The descriptor may belong to somebody else by now.
    log.write("too late")
    assert (tmp_path / "log").read_text() == "last ? words"
