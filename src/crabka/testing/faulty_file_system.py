"""A file system that fails on purpose, in front of any other.

Owns rules and their counters. Must not know what the files mean. A rule matches operations by name and paths by
glob; the first that fires decides. Operations are the method names of the ports: open, stat, listdir, makedirs,
rename, unlink, rmdir, rmtree, fsync_dir, disk_usage, lock, and pwritev, pread, pread_nowait, send_to, truncate, fsync
of files.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from crabka.vfs.copying import copy_by_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crabka.ports import Buffer, DiskUsage, File, FileStat, FileSystem

OPERATIONS = frozenset(
    [
        "open",
        "stat",
        "listdir",
        "makedirs",
        "rename",
        "unlink",
        "rmdir",
        "rmtree",
        "fsync_dir",
        "disk_usage",
        "lock",
        "pwritev",
        "pread",
        "pread_nowait",
        "send_to",
        "truncate",
        "fsync",
    ]
)


@dataclass(slots=True, kw_only=True)
class FaultRule:
    """When and how an operation fails. At least one effect is required."""

    operation: str = "*"
    path: str = "*"
    skip: int = 0  # this many matching operations pass first
    times: int | None = None  # then it fires so often; None = always
    # Effects, in this order.
    before: Callable[[str, str], None] | None = None  # called with operation and path: slow down, count, crash
    keep_bytes: int | None = None  # pwritev: so many bytes reach the file before the error
    error: int | None = None  # errno to raise
    would_block: bool = False  # pread_nowait: the bytes are not in memory
    matched_count: int = field(default=0, init=False)
    fired_count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.operation != "*" and self.operation not in OPERATIONS:
            raise ValueError(f"{self.operation!r} is no operation of a file system")
        if self.before is None and self.error is None and not self.would_block:
            raise ValueError("a fault needs an effect")

    def fires(self, operation: str, path: str) -> bool:
        """Count an operation and return whether it is to fail."""
        if self.operation not in ("*", operation) or not fnmatchcase(path, self.path):
            return False
        if self.would_block and operation != "pread_nowait":
            return False
        self.matched_count += 1
        if self.matched_count <= self.skip or (self.times is not None and self.fired_count >= self.times):
            return False
        self.fired_count += 1
        return True


class FaultyFile:
    """A handle whose operations are checked against the rules."""

    __slots__ = ("_fs", "_inner", "path")

    def __init__(self, fs: FaultyFileSystem, inner: File) -> None:
        self.path = inner.path
        self._fs = fs
        self._inner = inner

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers, or a prefix of them before the error of a rule."""
        rule = self._fs.firing_rule("pwritev", self.path)
        if rule is None or rule.error is None:
            return self._inner.pwritev(buffers, position)
        if rule.keep_bytes:
            self._inner.pwritev([b"".join(buffers)[: rule.keep_bytes]], position)
        raise _error(rule.error, self.path)

    def pread(self, length: int, position: int) -> bytes:
        """Read up to `length` bytes."""
        self._fs.check("pread", self.path)
        return self._inner.pread(length, position)

    def pread_nowait(self, length: int, position: int) -> Buffer | None:
        """Read what is in memory; a rule may pretend that it is not."""
        rule = self._fs.check("pread_nowait", self.path)
        if rule is not None and rule.would_block:
            return None
        return self._inner.pread_nowait(length, position)

    def in_memory(self, length: int, position: int) -> bool:
        """Return whether the bytes are in memory; never fails by a rule."""
        return self._inner.in_memory(length, position)

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        """Hand bytes to a socket."""
        self._fs.check("send_to", self.path)
        return self._inner.send_to(descriptor, length, position)

    def begin_writeback(self, length: int, position: int) -> None:
        """Give a hint; never fails by a rule."""
        self._inner.begin_writeback(length, position)

    def copy_from(self, source: File, length: int, position: int) -> int:
        """Copy bytes of another file to the same position here."""
        return copy_by_reading(source, self, length, position)

    def size(self) -> int:
        """Return the length of the file; never fails by a rule."""
        return self._inner.size()

    def truncate(self, size: int) -> None:
        """Cut or zero-extend the file."""
        self._fs.check("truncate", self.path)
        self._inner.truncate(size)

    def fsync(self) -> None:
        """Make content durable, unless a rule fails it."""
        self._fs.check("fsync", self.path)
        self._inner.fsync()

    def close(self) -> None:
        """Close the handle; never fails by a rule."""
        self._inner.close()


class FaultyFileSystem:
    """Calls `inner` unless a rule fires. Rules may be added and removed at any time."""

    def __init__(self, inner: FileSystem, rules: Sequence[FaultRule] = ()) -> None:
        self.inner = inner
        self.rules = list(rules)

    def add(self, rule: FaultRule) -> FaultRule:
        """Add a rule and return it, for its counters and for `remove`."""
        self.rules.append(rule)
        return rule

    def remove(self, rule: FaultRule) -> None:
        """Take a rule back: the disk works again."""
        self.rules.remove(rule)

    def firing_rule(self, operation: str, path: str) -> FaultRule | None:
        """Return the first rule that fires, after its `before` callback."""
        for rule in self.rules:
            if rule.fires(operation, path):
                if rule.before is not None:
                    rule.before(operation, path)
                return rule
        return None

    def check(self, operation: str, path: str) -> FaultRule | None:
        """Return the first rule that fires; raise its error if it has one."""
        rule = self.firing_rule(operation, path)
        if rule is not None and rule.error is not None:
            raise _error(rule.error, path)
        return rule

    def open(self, path: str, *, create: bool = False, read_only: bool = False, exclusive: bool = False) -> FaultyFile:
        """Open a file."""
        self.check("open", path)
        return FaultyFile(self, self.inner.open(path, create=create, read_only=read_only, exclusive=exclusive))

    def stat(self, path: str) -> FileStat:
        """Return size, time of last change and kind."""
        self.check("stat", path)
        return self.inner.stat(path)

    def exists(self, path: str) -> bool:
        """Return whether the name exists; never fails by a rule, as the real one hides errors too."""
        return self.inner.exists(path)

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        self.check("listdir", path)
        return self.inner.listdir(path)

    def makedirs(self, path: str) -> None:
        """Create a directory with its parents."""
        self.check("makedirs", path)
        self.inner.makedirs(path)

    def rename(self, old: str, new: str) -> None:
        """Move a file or directory; rules match the old name."""
        self.check("rename", old)
        self.inner.rename(old, new)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self.check("unlink", path)
        self.inner.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove a directory that is empty."""
        self.check("rmdir", path)
        self.inner.rmdir(path)

    def rmtree(self, path: str) -> None:
        """Remove a directory with all its content."""
        self.check("rmtree", path)
        self.inner.rmtree(path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable, unless a rule fails it."""
        self.check("fsync_dir", path)
        self.inner.fsync_dir(path)

    def disk_usage(self, path: str) -> DiskUsage:
        """Return size and free space."""
        self.check("disk_usage", path)
        return self.inner.disk_usage(path)

    def lock(self, path: str) -> FaultyFile:
        """Take an exclusive lock on a file."""
        self.check("lock", path)
        return FaultyFile(self, self.inner.lock(path))


def no_space(path: str = "*", *, keep_bytes: int | None = None) -> FaultRule:
    """Return a rule: the disk is full, after a torn write of `keep_bytes` if given."""
    return FaultRule(operation="pwritev", path=path, error=errno.ENOSPC, keep_bytes=keep_bytes)


def disk_failure(path: str = "*") -> FaultRule:
    """Return a rule: every operation fails with EIO, as on a dead disk."""
    return FaultRule(path=path, error=errno.EIO)


def read_only_disk(path: str = "*") -> list[FaultRule]:
    """Return rules: the kernel remounted the file system read-only after an error."""
    writing = ("pwritev", "truncate", "makedirs", "rename", "unlink", "rmdir", "rmtree")
    return [FaultRule(operation=operation, path=path, error=errno.EROFS) for operation in writing]


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
