"""What this process has asked the disk to keep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class SyncedFiles:
    """Records what is given to fsync, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        self._inodes: set[int] = set()
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._record)

    def _record(self, descriptor: int) -> None:
        self.paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        self._inodes.add(os.fstat(descriptor).st_ino)
        self._fsync(descriptor)

    def missing(self, directory: Path) -> list[str]:
        """Return the files and directories there that were never synced, under whatever name."""
        found = [directory, *directory.rglob("*")]
        return [str(path.relative_to(directory)) for path in found if path.stat().st_ino not in self._inodes]
