"""Random damage to the files of a real node, by kind of file, and what became of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.vfs import OsFileSystem
from crabka.vfs.guarded_file import COPY_PREFIX, Finding, read_guarded

if TYPE_CHECKING:
    import random
    from pathlib import Path

METADATA: Final = "__cluster_metadata-0"
_OFFSET_FILE: Final = re.compile(r"^\d{20}\.(log|index|timeindex|txnindex|snapshot)$")
_METADATA_SNAPSHOT: Final = re.compile(r"^\d{20}-\d{10}\.checkpoint$")
_INDEX_CACHE: Final = "remote-log-index-cache"
_GUARDED: Final = re.compile(
    r"^(meta\.properties|quorum-state|(recovery-point|replication|log-start|cleaner)-offset-checkpoint)$"
)
# A node writes its parts of these, and the rest is filling.
_PASSING_SUFFIXES: Final = (".tmp", ".part", ".deleted", ".cleaned", ".swap", ".lock", ".damaged")


class Flip(NamedTuple):
    """One byte of one file that was changed."""

    kind: str
    path: Path
    position: int
    old: int
    new: int
    # The file as it was before.
    before: bytes

    def __str__(self) -> str:
        where = f"{self.path.parent.parent.parent.name}/{self.path.parent.name}/{self.path.name}"
        return f"{self.kind}: {where} at {self.position}: {self.old:#04x} to {self.new:#04x}"

    @property
    def is_left(self) -> bool:
        """Whether the file still is as the flip made it."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return False
        after = bytearray(self.before)
        after[self.position] = self.new
        return data == bytes(after)

    def undo(self) -> None:
        """Put the byte back, as an operator restores an object."""
        _write_byte(self.path, self.position, self.old)


def files_by_kind(data_dir: Path) -> dict[str, list[Path]]:
    """Return the files of a node that can be damaged, each kind under its name."""
    found: dict[str, list[Path]] = {}
    for path in _files(data_dir):
        kind = kind_of(data_dir, path)
        if kind:
            found.setdefault(kind, []).append(path)
    return found


def tier_files_by_kind(tier: Path) -> dict[str, list[Path]]:
    """Return the objects of a tier that is a directory, each kind under its name."""
    found: dict[str, list[Path]] = {}
    for path in _files(tier):
        if not path.name.endswith(_PASSING_SUFFIXES):
            found.setdefault(f"tier {path.suffix}", []).append(path)
    return found


def kind_of(data_dir: Path, path: Path) -> str:
    """Return the kind of a file, nothing for one that comes and goes."""
    name, directory = path.name, path.parent.name
    if name.endswith(_PASSING_SUFFIXES):
        return ""
    if path.parent == data_dir:
        return name
    if directory.endswith(("-delete", "-stray", "-future")):
        return ""
    if _METADATA_SNAPSHOT.match(name):
        return "metadata snapshot"
    area = "metadata " if directory == METADATA else "cached " if directory == _INDEX_CACHE else ""
    matched = _OFFSET_FILE.match(name)
    if matched is not None or area == "cached ":
        return f"{area}.{name.rpartition('.')[2]}"
    return area + name


def _files(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        try:
            if path.is_dir():
                yield from _files(path)
            elif path.stat().st_size:
                yield path
        except FileNotFoundError:
            continue


def has_whole_twin(path: Path) -> bool:
    """Return whether a guarded file and its copy agree: one of them may rot, and both at once are beyond repair."""
    guarded = path.with_name(path.name.removeprefix(COPY_PREFIX))
    copy = guarded.with_name(COPY_PREFIX + guarded.name)
    if not copy.exists():
        return _GUARDED.match(guarded.name) is None
    try:
        return read_guarded(OsFileSystem(), str(guarded)).finding is Finding.WHOLE
    except FileNotFoundError:
        return False


def flip_byte(rng: random.Random, kind: str, files: Sequence[Path]) -> Flip | None:
    """Change one bit of one of the files; None if it went away meanwhile."""
    path = rng.choice(files)
    try:
        before = path.read_bytes()
        if not before:
            return None
        position = rng.randrange(len(before))
        new = before[position] ^ (1 << rng.randrange(8))
        _write_byte(path, position, new)
    except FileNotFoundError:
        return None
    return Flip(kind, path, position, before[position], new, before)


def _write_byte(path: Path, position: int, value: int) -> None:
    """Change a byte as a disk does, which leaves the time of the last change alone."""
    with path.open("r+b") as file:
        times = os.fstat(file.fileno())
        file.seek(position)
        file.write(bytes([value]))
        file.flush()
        os.utime(file.fileno(), ns=(times.st_atime_ns, times.st_mtime_ns))
