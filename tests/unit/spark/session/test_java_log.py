from __future__ import annotations

import logging
import os
import socketserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.spark.session.java_log import LOG_VARIABLE, JavaLog, keeping_exit_report


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
def test_a_temporary_file_stays_if_it_is_to_be_kept(
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
    # The descriptor may belong to something else by now.
    log.write("too late")
    assert (tmp_path / "log").read_text() == "last ? words"


def record(path: str, message: str) -> logging.LogRecord:
    return logging.LogRecord("root", logging.ERROR, path, 1, message, (), None)


def test_py4j_speaks_to_the_log_and_others_as_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = JavaLog(str(tmp_path / "log"))
    session: Any = SimpleNamespace(sparkContext=None)
    with keeping_exit_report(session, log):
        logging.getLogger().handle(record("site-packages/py4j/java_gateway.py", "Exception while sending command."))
        logging.getLogger().handle(record("job.py", "of a user"))
    logging.getLogger().handle(record("site-packages/py4j/java_gateway.py", "of another session"))
    log.close(keep=True)
    assert (tmp_path / "log").read_text() == "Exception while sending command.\n"
    assert caplog.messages == ["of a user", "of another session"]


class FailingServer(socketserver.TCPServer):
    """As much of pyspark's server of accumulators as breaks when Java dies."""

    def fail(self) -> None:
        try:
            raise EOFError("no broker there")
        except EOFError:
            self.handle_error(self.socket, ("127.0.0.1", 1))


def test_broken_connections_of_accumulators_are_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = JavaLog(str(tmp_path / "log"))
    with FailingServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_accumulatorServer=server))
        with keeping_exit_report(session, log):
            server.fail()
        log.close(keep=True)
        # Its thread may notice when the job is over.
        server.fail()
    assert (tmp_path / "log").read_text().splitlines()[-1] == "EOFError: no broker there"
    assert capfd.readouterr().err == ""
