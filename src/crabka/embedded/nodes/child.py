"""The main module of a child process: `crabka` with the arguments that follow, as long as the parent lives.

The parent holds the other end of standard input. When that is closed the parent has ended, maybe killed: this process
ends then at once, as a killed one, and removes the directory that the parent cannot remove any more.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import threading
from typing import Final

from crabka.cli.main import run

REMOVE: Final = "--remove"
# Forks of the parent may hold the pipe open longer than it lives, so the parent's id is looked at as well.
LOOK_EVERY_S: Final = 1.0


def main(arguments: list[str]) -> None:
    """Run the command that follows `--remove DIRECTORY`, if that is there."""
    doomed = None
    if arguments[:1] == [REMOVE]:
        doomed, arguments = arguments[1], arguments[2:]
    parent = os.getppid()
    threading.Thread(target=_end_with, args=(parent, doomed), name="crabka-parent-watch", daemon=True).start()
    run(arguments)


def _end_with(parent: int, doomed: str | None) -> None:
    while os.getppid() == parent:
        ready, _, _ = select.select((0,), (), (), LOOK_EVERY_S)
        if ready and not os.read(0, 1):
            break
    if doomed is not None:
        shutil.rmtree(doomed, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
