"""Golden directories on a memory disk, where a test may change them."""

from __future__ import annotations

from pathlib import Path

from crabka.testing.memory_file_system import MemoryFileSystem


def copy_to_memory(source: Path, target: str, fs: MemoryFileSystem | None = None) -> MemoryFileSystem:
    """Copy the files of a directory, with those below it; everything is durable."""
    fs = fs or MemoryFileSystem()
    fs.makedirs(target)
    fs.fsync_dir("/")
    for path in sorted(source.rglob("*")):
        inner = f"{target}/{path.relative_to(source).as_posix()}"
        if path.is_dir():
            fs.makedirs(inner)
            continue
        fs.makedirs(inner.rpartition("/")[0])
        file = fs.open(inner, create=True)
        file.pwritev([path.read_bytes()], 0)
        file.fsync()
        file.close()
    for directory in [source, *(path for path in source.rglob("*") if path.is_dir())]:
        fs.fsync_dir(f"{target}/{directory.relative_to(source).as_posix()}".removesuffix("/."))
    return fs
