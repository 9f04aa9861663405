"""A broker as a real child process: start, wait until it serves, stop, kill, start again on the same directory.

Owns only what every broker has in common; what to run and how readiness shows is said by the subclasses in
`crabka_process` and `jvm`, so that one test can judge Crabka and Apache Kafka alike.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

POLL_SECONDS = 0.005
PATIENCE_S = 120.0
"""How long a condition may take on a machine that is busy with other work; a node that hangs fails all the same."""

T = TypeVar("T")


class NodeError(AssertionError):
    """The process did not do what it was asked for; carries the end of what it printed."""


def wait_until(
    condition: Callable[[], T], what: str, *, timeout_s: float = PATIENCE_S, poll_s: float = POLL_SECONDS
) -> T:
    """Poll until the condition is true and return its value; raises NodeError when time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise NodeError(f"gave up after {timeout_s:g} s waiting until {what}")
        time.sleep(poll_s)


def accepts_connections(port: int) -> bool:
    """Whether a process listens on the port of 127.0.0.1."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class NodeProcess:
    """One broker process on one directory; usable as a context manager that starts and stops it."""

    name = "node"
    start_timeout_s = PATIENCE_S
    # How many files and sockets the process may open; None for as many as this one.
    open_files: int | None = None

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """Prepare to run in the directory with the given server properties (Kafka's names)."""
        self.directory = directory
        self.settings = dict(settings or {})
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._files: list[IO[bytes]] = []

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> Path:
        """The directory below which the node keeps its logs."""
        return self.directory / "data"

    @property
    def pid(self) -> int:
        """Process id of the running node."""
        if self._process is None:
            raise NodeError(f"{self.name} was not started")
        return self._process.pid

    @property
    def stdout_path(self) -> Path:
        """Where the standard output of the process goes."""
        return self.directory / f"{self.name}.out"

    @property
    def stderr_path(self) -> Path:
        """Where the standard error of the process goes, appended over restarts."""
        return self.directory / f"{self.name}.err"

    def stderr_text(self) -> str:
        """Everything that the node has written to standard error so far."""
        return self.stderr_path.read_text(errors="replace") if self.stderr_path.exists() else ""

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start and wait until the node serves clients; raises NodeError with its output otherwise."""
        self.launch()
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until a launched node serves clients; raises NodeError with its output otherwise."""
        wait_until(self._is_ready_or_dead, f"{self.name} is ready", timeout_s=self.start_timeout_s)

    def launch(self) -> None:
        """Start the process without waiting for it to be ready."""
        if self.is_alive():
            raise NodeError(f"{self.name} runs already")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._prepare()
        out = self.stdout_path.open("wb")
        err = self.stderr_path.open("ab")
        self._files = [out, err]
        self._process = subprocess.Popen(self._limited_command(), stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def _limited_command(self) -> Sequence[str]:
        command = self._command()
        if self.open_files is None:
            return command
        return ["sh", "-c", f'ulimit -n {self.open_files}; exec "$0" "$@"', *command]

    def _is_ready_or_dead(self) -> bool:
        if not self.is_alive():
            raise NodeError(f"{self.name} ended while starting with {self.exit_code()}: {self.last_output()}")
        return self._is_ready()

    def last_output(self, characters: int = 4000) -> str:
        """The end of what the process printed, for messages."""
        out = self.stdout_path.read_text(errors="replace") if self.stdout_path.exists() else ""
        return f"\nstdout: {out[-characters:]}\nstderr: {self.stderr_text()[-characters:]}"

    def exit_code(self) -> int | None:
        """Return code of the ended process, None while it runs."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing said goodbye to."""
        self._end(signal.SIGKILL)

    def stop(self, *, timeout_s: float = PATIENCE_S) -> int:
        """SIGTERM, wait for the end and return the exit code."""
        return self._end(signal.SIGTERM, timeout_s)

    def wait_exit(self, *, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the process ends by itself and return the exit code."""
        if self._process is None:
            raise NodeError(f"{self.name} was not started")
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise NodeError(f"{self.name} still runs after {timeout_s:g} s: {self.last_output()}") from None
        self._close_files()
        return code

    def restart(self) -> Self:
        """Stop cleanly and start again on the same directory and port."""
        self.stop()
        return self.start()

    def _end(self, how: signal.Signals, timeout_s: float = PATIENCE_S) -> int:
        if self._process is None:
            return 0
        if self.is_alive():
            self._process.send_signal(how)
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise NodeError(f"{self.name} ignored {how.name} for {timeout_s:g} s: {self.last_output()}") from None
        finally:
            self._close_files()
        return code

    def _close_files(self) -> None:
        for file in self._files:
            file.close()
        self._files = []

    def _prepare(self) -> None:
        """Hook for what has to be done before the process starts (format, configuration file)."""

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Start the node; one that does not come up is not left behind."""
        try:
            return self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the node whatever happened; a node that a test killed stays dead."""
        if self.is_alive():
            self.stop()
