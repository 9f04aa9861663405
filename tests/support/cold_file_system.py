"""A disk on which nothing is in the page cache: `pread_nowait` always answers None."""

from __future__ import annotations

from typing import Any

from crabka.ports import File, FileSystem


class ColdFile:
    """A file that cannot be read without waiting."""

    def __init__(self, inner: File) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def pread_nowait(self, length: int, position: int) -> bytes | None:
        """Answer that the bytes are not in memory."""
        return None


class ColdFileSystem:
    """A file system whose files are cold; everything else is the inner one's."""

    def __init__(self, inner: FileSystem) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open(self, path: str, *, create: bool = False, read_only: bool = False, exclusive: bool = False) -> Any:
        """Open a cold file."""
        return ColdFile(self._inner.open(path, create=create, read_only=read_only, exclusive=exclusive))
