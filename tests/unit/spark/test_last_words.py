from __future__ import annotations

import logging
import socketserver
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crabka.spark.java_log import JavaLog
from crabka.spark.last_words import keeping_last_words


def record(path: str, message: str) -> logging.LogRecord:
    return logging.LogRecord("root", logging.ERROR, path, 1, message, (), None)


def test_py4j_speaks_to_the_log_and_others_as_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = JavaLog(str(tmp_path / "log"))
    session: Any = SimpleNamespace(sparkContext=None)
    with keeping_last_words(session, log):
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
            raise EOFError("nobody there")
        except EOFError:
            self.handle_error(self.socket, ("127.0.0.1", 1))


def test_broken_connections_of_accumulators_are_told_to_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = JavaLog(str(tmp_path / "log"))
    with FailingServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_accumulatorServer=server))
        with keeping_last_words(session, log):
            server.fail()
        log.close(keep=True)
        # Its thread may notice when the job is over.
        server.fail()
    assert (tmp_path / "log").read_text().splitlines()[-1] == "EOFError: nobody there"
    assert capfd.readouterr().err == ""
