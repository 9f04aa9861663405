"""`crabka lake sync` as the processes that it really is: a driver, its Java and the workers that Java starts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.support.spark.servers import crabka_command

# A task may fail thrice, as on a cluster.
_MASTER = "local[2,4]"
_PATIENCE_S = 240.0


class Victim(StrEnum):
    """Whom to kill."""

    DRIVER = "driver"
    JAVA = "java"
    WORKER = "worker"


class LakeCommand:
    """One run of the command."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], errors: Path) -> None:
        command = crabka_command("lake", "sync", *arguments, "--master", _MASTER, "--json")
        self._errors = errors
        with errors.open("w") as file:
            self._process = subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=file, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # All that it started is of its session, also what is dead already.
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self._process.pid:
                    process.kill()
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        self._process.wait()

    def is_running(self) -> bool:
        """Whether the driver lives."""
        return self._process.poll() is None

    def kill(self, victim: Victim) -> bool:
        """Kill by SIGKILL; whether there was a process to kill."""
        try:
            found = self._find(victim)
            for process in found:
                process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            return False
        return bool(found)

    def wait(self) -> int:
        """Wait for the driver's end."""
        return self._process.wait(_PATIENCE_S)

    def errors(self) -> str:
        """What it said."""
        return self._errors.read_text()

    def _find(self, victim: Victim) -> list[psutil.Process]:
        driver = psutil.Process(self._process.pid)
        if victim is Victim.DRIVER:
            return [driver] if self.is_running() else []
        started = driver.children(recursive=True)
        if victim is Victim.JAVA:
            return [process for process in started if "java" in process.name()]
        # Java starts a daemon, whose children are the workers.
        daemons = [process for process in started if "pyspark.daemon" in process.cmdline()]
        return [child for daemon in daemons for child in daemon.children()][:1]
