"""The file-system port on the operating system.

Owns file descriptors and the knowledge of which devices cannot read without blocking. Must not know logs,
threads or the event loop: a read that would block answers None and the caller takes it to a thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import sys
from os import pread as _os_pread
from os import pwritev as _os_pwritev
from typing import TYPE_CHECKING

from crabka.ports import DiskUsage, FileStat
from crabka.vfs.copying import copy_by_reading
from crabka.vfs.page_cache import begin_writeback, is_cached
from crabka.vfs.read_buffers import BUFFER_BYTES, ReadBuffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabka.ports import Buffer, File

if sys.platform == "linux":
    from os import RWF_NOWAIT as _RWF_NOWAIT
    from os import preadv as _os_preadv

_HAS_NOWAIT = sys.platform == "linux"
_HAS_SENDFILE_TO_FILES = sys.platform == "linux"
# POSIX guarantees 16; Linux and macOS have 1024. More buffers than this in one call are refused with EINVAL.
_IOV_MAX = os.sysconf("SC_IOV_MAX")
# Below this size fresh memory costs nothing to speak of.
_SMALL_READ_BYTES = 16 * 1024
# A number no process can have open, so that the kernel itself answers EBADF after close; Python rejects -1 with
# ValueError in some calls.
_CLOSED_FD = 2**31 - 1


class OsFile:
    """An open file of the operating system.

    Not to be closed while a thread still uses it: the descriptor's number could be reused under that thread.
    """

    __slots__ = ("__weakref__", "_device", "_fd", "_fs", "_nowait", "path")

    def __init__(self, fs: OsFileSystem, path: str, fd: int, device: int) -> None:
        self.path = path
        self._fd = fd
        self._fs = fs
        self._device = device
        self._nowait = _HAS_NOWAIT and device not in fs.blocking_devices

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers of bytes at `position`; short writes are completed. Return the bytes written."""
        total = sum(map(len, buffers))
        if len(buffers) <= _IOV_MAX:
            written = _os_pwritev(self._fd, buffers, position)
            if written == total:
                return total
        else:
            written = 0
        self._complete_write(buffers, position, written)
        return total

    def _complete_write(self, buffers: Sequence[Buffer], position: int, written: int) -> None:
        """Write what is left of `buffers` after their first `written` bytes, in chunks the kernel accepts."""
        rest = [memoryview(buffer) for buffer in buffers if len(buffer)]
        start = 0  # index of the first buffer with unwritten bytes
        position += written
        while True:
            while start < len(rest) and written >= len(rest[start]):
                written -= len(rest[start])
                start += 1
            if start == len(rest):
                return
            if written:
                rest[start] = rest[start][written:]
            written = _os_pwritev(self._fd, rest[start : start + _IOV_MAX], position)
            position += written

    def pread(self, length: int, position: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file. May block on the disk."""
        data = _os_pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        # Short before the end of the file: the kernel caps one read at 2 GiB, and signals may interrupt it.
        chunks = [data]
        done = len(data)
        while done < length and (data := _os_pread(self._fd, length - done, position + done)):
            chunks.append(data)
            done += len(data)
        return b"".join(chunks)

    def pread_nowait(self, length: int, position: int) -> Buffer | None:
        """Like pread if the bytes are in the page cache, else None: the caller then reads in a thread."""
        if not self._nowait:
            return None
        pooled = self._fs.read_buffers.take() if _SMALL_READ_BYTES < length <= BUFFER_BYTES else None
        view = memoryview(bytearray(length) if pooled is None else pooled)[:length]
        if pooled is not None:
            self._fs.read_buffers.put(pooled)
        try:
            done = _os_preadv(self._fd, (view,), position, _RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            # Some file systems (tmpfs, several network ones) never support it: try each device only once.
            self._nowait = False
            self._fs.blocking_devices.add(self._device)
            return None
        # A short read means the end of the file or the edge of the cached pages. Only the first is an answer.
        if done < length and position + done < os.fstat(self._fd).st_size:
            return None
        return view[:done].toreadonly()

    def in_memory(self, length: int, position: int) -> bool:
        """Return whether the page cache has the bytes; False if the kernel does not say."""
        return is_cached(self._fd, length, position)

    def send_to(self, descriptor: int, length: int, position: int) -> int:
        """Hand bytes from the page cache to a non-blocking socket. Return how many it took, 0 at the file's end."""
        return os.sendfile(descriptor, self._fd, position, length)

    def begin_writeback(self, length: int, position: int) -> None:
        """Let the disk begin to write bytes that are in memory only. A hint: nothing is durable by it."""
        begin_writeback(self._fd, length, position)

    def copy_from(self, source: File, length: int, position: int) -> int:
        """Copy bytes of another file to the same position here; return how many, fewer only at its end.

        `sendfile` needs no memory of this process and, unlike copy_file_range, also goes from one disk to another.
        """
        if not _HAS_SENDFILE_TO_FILES or not isinstance(source, OsFile):
            return copy_by_reading(source, self, length, position)
        os.lseek(self._fd, position, os.SEEK_SET)
        done = 0
        while done < length and (sent := os.sendfile(self._fd, source._fd, position + done, length - done)):
            done += sent
        return done

    def size(self) -> int:
        """Return the current length of the file in bytes."""
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """Cut or zero-extend the file to `size` bytes."""
        os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        """Make content and length durable."""
        _sync(self._fd)

    def close(self) -> None:
        """Close the handle and drop its lock, if any; closing twice is allowed."""
        fd, self._fd = self._fd, _CLOSED_FD
        if fd != _CLOSED_FD:
            os.close(fd)


class OsFileSystem:
    """Files and directories of the operating system. One instance per node; cheap to make."""

    __slots__ = ("blocking_devices", "read_buffers")

    def __init__(self) -> None:
        # Device numbers whose file systems refused a read with RWF_NOWAIT.
        self.blocking_devices: set[int] = set()
        self.read_buffers = ReadBuffers()

    def open(self, path: str, *, create: bool = False, read_only: bool = False, exclusive: bool = False) -> OsFile:
        """Open a file for reading and writing; `create` makes it if absent, `exclusive` only if absent."""
        flags = os.O_CLOEXEC | (os.O_RDONLY if read_only else os.O_RDWR)
        if exclusive:
            flags |= os.O_CREAT | os.O_EXCL
        elif create:
            flags |= os.O_CREAT
        fd = os.open(path, flags, 0o644)
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):  # possible only with read_only; writable opens fail by themselves
            os.close(fd)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return OsFile(self, path, fd, status.st_dev)

    def stat(self, path: str) -> FileStat:
        """Return size, time of last change and kind. Raises FileNotFoundError."""
        status = os.stat(path)
        return FileStat(status.st_size, status.st_mtime_ns // 1_000_000, stat.S_ISDIR(status.st_mode))

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that name exists."""
        return os.path.exists(path)

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(os.listdir(path))

    def makedirs(self, path: str) -> None:
        """Create a directory with its parents; it may exist already."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Move a file or directory in one step; a file at `new` is replaced."""
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        """Remove a file. Raises FileNotFoundError."""
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove a directory that is empty. Raises FileNotFoundError, OSError with ENOTEMPTY if it is not."""
        os.rmdir(path)

    def rmtree(self, path: str) -> None:
        """Remove a directory with all its content."""
        shutil.rmtree(path)

    def fsync_dir(self, path: str) -> None:
        """Make the names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def disk_usage(self, path: str) -> DiskUsage:
        """Return size and free space of the file system that holds `path`."""
        status = os.statvfs(path)
        return DiskUsage(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def lock(self, path: str) -> OsFile:
        """Take an exclusive lock on a file, held until close. Raises BlockingIOError if another holds it."""
        file = self.open(path, create=True)
        try:
            fcntl.flock(file._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return file


def _sync(fd: int) -> None:
    if sys.platform == "darwin":
        # fsync on macOS stops at the drive's own cache; this is what reaches the medium.
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)
