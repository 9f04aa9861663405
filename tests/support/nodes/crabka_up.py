"""`crabka up` as a real child process, ready when it prints its `bootstrap.servers=` line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.nodes.process import NodeProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

READY = "bootstrap.servers="


def crabka_command() -> Path:
    """The `crabka` script beside the interpreter that runs the tests."""
    return Path(sys.executable).parent / "crabka"


class CrabkaProcess(NodeProcess):
    """One node started by `crabka up`; keeps its port over restarts."""

    name = "crabka"

    def _command(self) -> Sequence[str]:
        options = [f"--set={key}={value}" for key, value in self.settings.items()]
        listen = f"127.0.0.1:{self.port}"
        return [str(crabka_command()), "up", "--data-dir", str(self.data_dir), "--listen", listen, *options]

    def _is_ready(self) -> bool:
        for line in self.stdout_path.read_text().splitlines(keepends=True):
            if line.startswith(READY) and line.endswith("\n"):
                self.port = int(line.strip().rpartition(":")[2])
                return True
        return False
