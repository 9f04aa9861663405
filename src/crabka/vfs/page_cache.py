"""What Python has no call for: which bytes of a file are in the page cache, and that they shall go to the disk.

cachestat(2) is there from Linux 6.5 on and has no wrapper in the C library either, so it is called by number. Where it
is missing or forbidden the answer is always that nothing is known to be in memory. sync_file_range(2) starts to write,
without the commit of a journal that fsync brings about, which others would have to wait for.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Final

# The same on all architectures that Python runs on, as for all system calls added since Linux 5.1.
_SYS_CACHESTAT: Final = 451
_Range = ctypes.c_uint64 * 2  # offset, length
_Counts = ctypes.c_uint64 * 5  # pages: cached, dirty, under writeback, evicted, recently evicted

_SYNC_FILE_RANGE_WRITE: Final = 2

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
_syscall = getattr(_libc, "syscall", None)
_sync_file_range = getattr(_libc, "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def is_cached(descriptor: int, length: int, position: int) -> bool:
    """Return whether every page of the range is in the page cache. Never waits for the disk."""
    if _syscall is None or length <= 0:
        return False
    counts = _Counts()
    if _syscall(_SYS_CACHESTAT, descriptor, ctypes.byref(_Range(position, length)), ctypes.byref(counts), 0) != 0:
        return False
    first_page = position // mmap.PAGESIZE
    end_page = (position + length - 1) // mmap.PAGESIZE + 1
    return int(counts[0]) >= end_page - first_page


def begin_writeback(descriptor: int, length: int, position: int) -> None:
    """Start to write a range to the disk. The next fsync reports failures."""
    if _sync_file_range is not None and length > 0:
        _sync_file_range(descriptor, position, length, _SYNC_FILE_RANGE_WRITE)
