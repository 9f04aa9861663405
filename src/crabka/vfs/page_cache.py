"""Asks the kernel which bytes of a file are in its page cache: cachestat(2), Linux 6.5 and later.

There is no wrapper for it in Python or the C library, so it is called by number. Where it is missing or forbidden the
answer is always that nothing is known to be in memory.
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

_syscall = ctypes.CDLL(None).syscall if sys.platform == "linux" else None


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
