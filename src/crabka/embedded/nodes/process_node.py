"""A node in a child process: `crabka up` on a port of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Final, Self

from crabka.config.listeners import format_address
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

READY_PREFIX: Final = "bootstrap.servers="
STOP_TIMEOUT_S: Final = 30


class ProcessNode:
    """One life of a node: `start` once, then `stop` or `kill` once. The child ends with this process."""

    def __init__(
        self, data_dir: str, host: str, port: int, settings: Mapping[str, str], *, temporary_dir: str | None = None
    ) -> None:
        """`temporary_dir` is removed by the child if this process is killed."""
        command = [sys.executable, "-m", "crabka.embedded.nodes.child"]
        if temporary_dir is not None:
            command += ["--remove", temporary_dir]
        command += ["up", "--data-dir", data_dir, "--listen", format_address(host, port)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._words: IO[str] | None = None
        self._failure: ConfigError | None = None
        self._is_ending = False
        self._address = ""

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port for clients."""
        return self._address

    @property
    def pid(self) -> int:
        """Return the child's process id."""
        if self._process is None:
            raise RuntimeError("the process was not started")
        return self._process.pid

    @property
    def failure(self) -> BaseException | None:
        """Return why the child ended by itself, None if it did not."""
        process = self._process
        if process is not None and not self._is_ending and self._failure is None and process.poll() is not None:
            self._failure = ConfigError(self._reason(process))
        return self._failure

    def start(self) -> Self:
        """Start the child and wait until it serves. Raises ConfigError with its last output if it does not."""
        # A file, not a pipe: the child's log lines are not read, and a full pipe would stop it.
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by _clean_up
        try:
            process = self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
                self._command,
                # The child ends when the other end of it is closed, by us or with us.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                text=True,
                # An interrupt from the terminal is for this process, which stops the child.
                start_new_session=True,
            )
            assert process.stdout is not None  # noqa: S101 - requested above
            for line in process.stdout:
                if line.startswith(READY_PREFIX):
                    self._address = line.removeprefix(READY_PREFIX).strip()
                    return self
            process.wait()
            raise ConfigError(self._reason(process))
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop cleanly by SIGTERM and wait; a child that hangs is killed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the child by SIGKILL and wait."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let the child do nothing until `resume`, by SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused child go on, by SIGCONT."""
        self._signal(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        self._is_ending = True
        process = self._process
        if process is not None:
            self._signal(number)
            self._signal(signal.SIGCONT)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._words is not None:
            self._words.close()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _reason(self, process: subprocess.Popen[str]) -> str:
        if process.returncode < 0:
            return f"the broker process was ended by {signal.Signals(-process.returncode).name}"
        last_line = ""
        if self._words is not None:
            self._words.seek(0)
            last_line = self._words.read().strip().rpartition("\n")[2]
        return last_line or f"the broker process ended with code {process.returncode}"
