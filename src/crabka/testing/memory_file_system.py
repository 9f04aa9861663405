"""A file system in memory that loses exactly what a crash may lose.

Owns paths, handles, locks, space and errno of the simulated disk; `memory_nodes` owns what survives a crash.
It behaves as Linux does (one contract suite runs on both), except that space of an unlinked file is free at once.
Paths are normalised; relative ones start at the root.
"""

from __future__ import annotations

import copy
import errno
import os
import posixpath
from typing import TYPE_CHECKING

from crabka.ports import DiskUsage, FileStat
from crabka.testing.memory_nodes import PAGE_BYTES, DirectoryNode, FileNode, NameJournal
from crabka.vfs.copying import copy_by_reading

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from crabka.ports import Buffer, File
    from crabka.testing.memory_nodes import Node

# What disk_usage returns for a file system without a limit.
_UNLIMITED_BYTES = 1 << 40


class MemoryFile:
    """An open handle. After a crash it is dead: every use raises OSError(ESTALE)."""

    __slots__ = ("_fs", "_generation", "_node", "_open", "_read_only", "path")

    def __init__(self, fs: MemoryFileSystem, path: str, node: FileNode, *, read_only: bool) -> None:
        self.path = path
        self._fs = fs
        self._node = node
        self._read_only = read_only
        self._open = True
        self._generation = fs.crash_count

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers at `position`. When space runs out, a prefix is written before ENOSPC is raised."""
        self._check(writing=True)
        data = b"".join(buffers)
        if position < 0:
            raise _error(errno.EINVAL, self.path)
        fitting = self._fs.fitting_bytes(self._node, position, len(data))
        self._fs.modify(self._node, lambda: self._node.write(data[:fitting], position))
        if fitting < len(data):
            raise _error(errno.ENOSPC, self.path)
        return len(data)

    def pread(self, length: int, position: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""
        self._check()
        if position < 0:
            raise _error(errno.EINVAL, self.path)
        return bytes(self._node.content[position : position + length])

    def pread_nowait(self, length: int, position: int) -> Buffer | None:
        """Read at once: everything is in memory."""
        return self.pread(length, position)

    def in_memory(self, length: int, position: int) -> bool:
        """Return True: everything that exists is."""
        return position + length <= self.size()

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        """Write bytes to a non-blocking socket. Return how many it took, 0 at the end of the file."""
        data = self.pread(length, position)
        return os.write(descriptor, data) if data else 0

    def begin_writeback(self, length: int, position: int) -> None:
        """Do nothing: only what was synced is durable."""

    def copy_from(self, source: File, length: int, position: int) -> int:
        """Copy bytes of another file to the same position here."""
        return copy_by_reading(source, self, length, position)

    def size(self) -> int:
        """Return the current length of the file in bytes."""
        self._check()
        return len(self._node.content)

    def truncate(self, size: int) -> None:
        """Cut or zero-extend the file to `size` bytes. An extension counts as used space but is never refused."""
        self._check()
        if self._read_only or size < 0:  # ftruncate fails with EINVAL where write fails with EBADF
            raise _error(errno.EINVAL, self.path)
        self._fs.modify(self._node, lambda: self._node.truncate(size))

    def fsync(self) -> None:
        """Make content and length durable, not the name."""
        self._check()
        self._node.sync()

    def close(self) -> None:
        """Close the handle and drop its lock, if any; closing twice is allowed."""
        if self._open and self._generation == self._fs.crash_count:
            self._fs.release_lock(self._node, self)
        self._open = False

    def _check(self, *, writing: bool = False) -> None:
        if self._generation != self._fs.crash_count:
            raise _error(errno.ESTALE, self.path)
        if not self._open or (writing and self._read_only):
            raise _error(errno.EBADF, self.path)


class MemoryFileSystem:
    """A disk in memory. `crash()` simulates a power cut; `clone()` is a second disk with the same state."""

    def __init__(self, *, capacity_bytes: int | None = None, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.capacity_bytes = capacity_bytes
        self.crash_count = 0
        self._now_ms = now_ms
        self._root = DirectoryNode(now_ms())
        self._names = NameJournal()
        self._locks: dict[FileNode, MemoryFile] = {}
        self._used_bytes = 0

    def crash(self, rng: random.Random | None = None, *, block_bytes: int = PAGE_BYTES) -> None:
        """Lose what is not durable and kill all handles and locks.

        Without `rng` nothing survives but what was synced. With it, every block of `block_bytes` and every name
        change since the last sync survives or not by a draw.
        """
        self.crash_count += 1
        self._locks.clear()
        self._names.crash(rng)
        self._root.crash(rng, block_bytes)
        self._used_bytes = 0
        for node in self._root.walk():
            if isinstance(node, FileNode):
                node.linked = True
                self._used_bytes += len(node.content)

    def rot(self, path: str, position: int, mask: int = 1) -> None:
        """Flip bits of a byte as an ageing disk does: durable at once, and size and times stay."""
        node = self._node(path)
        if isinstance(node, DirectoryNode) or not 0 <= position < len(node.content):
            raise _error(errno.EINVAL, path)
        node.rot(position, mask)

    def clone(self) -> MemoryFileSystem:
        """Return an independent copy, volatile and durable side, without the handles and locks."""
        twin = MemoryFileSystem(capacity_bytes=self.capacity_bytes, now_ms=self._now_ms)
        twin._root, twin._names = copy.deepcopy((self._root, self._names))
        twin._used_bytes = self._used_bytes
        return twin

    def open(self, path: str, *, create: bool = False, read_only: bool = False, exclusive: bool = False) -> MemoryFile:
        """Open a file for reading and writing; `create` makes it if absent, `exclusive` only if absent."""
        parent, name = self._parent(path)
        node: Node | None = parent.entries.get(name) if name else parent
        if node is None:
            if not (create or exclusive):
                raise _error(errno.ENOENT, path)
            node = FileNode(self._now_ms())
            self._names.record({(parent, name): node})
        elif exclusive:
            raise _error(errno.EEXIST, path)
        if isinstance(node, DirectoryNode):
            raise _error(errno.EISDIR, path)
        return MemoryFile(self, path, node, read_only=read_only)

    def stat(self, path: str) -> FileStat:
        """Return size, time of last change and kind. Raises FileNotFoundError."""
        node = self._node(path)
        if isinstance(node, DirectoryNode):
            return FileStat(0, node.modified_ms, is_dir=True)
        return FileStat(len(node.content), node.modified_ms, is_dir=False)

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(self._directory(path).entries)

    def makedirs(self, path: str) -> None:
        """Create a directory with its parents; it may exist already."""
        directory = self._root
        names = _split(path)
        for index, name in enumerate(names):
            node = directory.entries.get(name)
            if node is None:
                node = DirectoryNode(self._now_ms())
                self._names.record({(directory, name): node})
            if isinstance(node, FileNode):
                raise _error(errno.EEXIST if index == len(names) - 1 else errno.ENOTDIR, path)
            directory = node

    def rename(self, old: str, new: str) -> None:
        """Move a file or directory in one step; a file at `new` is replaced."""
        old_parent, old_name = self._parent(old)
        new_parent, new_name = self._parent(new)
        node = old_parent.entries.get(old_name)
        target = new_parent.entries.get(new_name)
        if node is None:
            raise _error(errno.ENOENT, old)
        if node is target:
            return
        if isinstance(node, DirectoryNode) and (new_parent is node or new_parent in node.walk()):
            raise _error(errno.EINVAL, new)
        if target is not None:
            _check_replaceable(node, target, new)
            self._forget(target)
        self._names.record({(old_parent, old_name): None, (new_parent, new_name): node})

    def unlink(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""
        node = self._node(path)
        if isinstance(node, DirectoryNode):
            raise _error(errno.EISDIR, path)
        self._names.record({self._parent(path): None})
        self._forget(node)

    def rmdir(self, path: str) -> None:
        """Remove a directory that is empty. Raises FileNotFoundError, OSError with ENOTEMPTY if it is not."""
        if self._directory(path).entries:
            raise _error(errno.ENOTEMPTY, path)
        self._names.record({self._parent(path): None})

    def rmtree(self, path: str) -> None:
        """Remove a directory with all its content, name by name as the real one does."""
        directory = self._directory(path)
        for name, node in sorted(directory.entries.items()):
            if isinstance(node, DirectoryNode):
                self.rmtree(posixpath.join(path, name))
            else:
                self.unlink(posixpath.join(path, name))
        self._names.record({self._parent(path): None})

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        self._names.sync(self._directory(path))

    def disk_usage(self, path: str) -> DiskUsage:
        """Return size and free space of the file system that holds `path`."""
        self._node(path)
        total = _UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return DiskUsage(total, max(total - self._used_bytes, 0))

    def lock(self, path: str) -> MemoryFile:
        """Take an exclusive lock on a file, held until close. Raises BlockingIOError if another holds it."""
        file = self.open(path, create=True)
        if file._node in self._locks:
            raise _error(errno.EAGAIN, path)
        self._locks[file._node] = file
        return file

    def release_lock(self, node: FileNode, holder: MemoryFile) -> None:
        """Drop the lock of a handle that is being closed, if it has one."""
        if self._locks.get(node) is holder:
            del self._locks[node]

    def fitting_bytes(self, node: FileNode, position: int, length: int) -> int:
        """Return how many of `length` bytes can be written at `position` before space runs out."""
        if self.capacity_bytes is None or not node.linked:
            return length
        free = max(self.capacity_bytes - self._used_bytes, 0)
        return min(length, max(len(node.content) + free - position, 0))

    def modify(self, node: FileNode, change: Callable[[], None]) -> None:
        """Carry out a change of content and account for it in time and space."""
        before = len(node.content)
        change()
        node.modified_ms = self._now_ms()
        if node.linked:
            self._used_bytes += len(node.content) - before

    def _forget(self, node: Node) -> None:
        if isinstance(node, FileNode):
            node.linked = False
            self._used_bytes -= len(node.content)

    def _node(self, path: str) -> Node:
        node: Node = self._root
        for name in _split(path):
            if isinstance(node, FileNode):
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._node(path)
        if isinstance(node, FileNode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        """Return the directory that holds, or would hold, the last name of `path`; the root has no name."""
        names = _split(path)
        if not names:
            return self._root, ""
        return self._directory("/".join(names[:-1])), names[-1]


def _split(path: str) -> list[str]:
    return [name for name in posixpath.normpath("/" + path).split("/") if name]


def _check_replaceable(node: Node, target: Node, path: str) -> None:
    """Raise what rename(2) answers when `target` cannot make way for `node`."""
    if isinstance(target, DirectoryNode):
        if isinstance(node, FileNode):
            raise _error(errno.EISDIR, path)
        if target.entries:
            raise _error(errno.ENOTEMPTY, path)
    elif isinstance(node, DirectoryNode):
        raise _error(errno.ENOTDIR, path)


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
