"""Directories that live as long as their owner, and are removed also if that is forgotten, or killed.

The owner removes its directory; if it is collected or the interpreter ends, a finalizer does. What a killed process
left behind is removed when the next directory is made: its lock is free then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Final

PREFIX: Final = "crabka-test-"
_UNLOCKED_PREFIX: Final = "crabka-new-"
_LOCK_NAME: Final = ".owner"


class TemporaryDir:
    """An empty directory that is ours alone."""

    def __init__(self) -> None:
        """Make it. Raises OSError."""
        _remove_abandoned()
        made = Path(tempfile.mkdtemp(prefix=_UNLOCKED_PREFIX))
        lock = os.open(made / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Others take it for abandoned only under its last name, which it has once it is locked.
        self.path = made.rename(made.with_name(PREFIX + made.name.removeprefix(_UNLOCKED_PREFIX)))
        self._remove = weakref.finalize(self, _remove_own, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove it with all its content. Removing it twice is allowed."""
        self._remove()


def _remove_own(path: Path, lock: int, owner: int) -> None:
    if os.getpid() != owner:
        # A fork has a copy of the object, and no right to the directory.
        return
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(path / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
