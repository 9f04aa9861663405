"""A node in a child process: `crabka up` on a port of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from crabka.config.listeners import format_address
from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

READY_PREFIX = "bootstrap.servers="
STOP_TIMEOUT_S = 30


class ProcessNode:
    """A child process that runs until `stop`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process = process
        self.bootstrap_servers = address

    @property
    def pid(self) -> int:
        """Return the child's process id."""
        return self._process.pid

    @classmethod
    def start(cls, data_dir: str, host: str, port: int, settings: Mapping[str, str]) -> ProcessNode:
        """Start the child and wait until it serves. Raises ConfigError with its last output if it does not."""
        command = [sys.executable, "-m", "crabka.cli", "up", "--data-dir", data_dir]
        command += ["--listen", format_address(host, port)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        # A file, not a pipe: the child's log lines are not read, and a full pipe would stop it.
        with tempfile.TemporaryFile("w+") as words:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, text=True)  # noqa: S603
            assert process.stdout is not None  # noqa: S101 - requested above
            for line in process.stdout:
                if line.startswith(READY_PREFIX):
                    return cls(process, line.removeprefix(READY_PREFIX).strip())
            process.wait()
            process.stdout.close()
            words.seek(0)
            last_words = words.read().strip().rpartition("\n")[2]
        raise ConfigError(last_words or f"the broker process ended with code {process.returncode}")

    def stop(self) -> None:
        """Stop cleanly by SIGTERM and wait; a child that hangs is killed."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
