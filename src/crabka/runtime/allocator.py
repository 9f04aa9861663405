"""What the C library does with large memory that the process no longer needs."""

from __future__ import annotations

import ctypes
from typing import Final

# mallopt(3) of glibc.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
LARGE_BYTES: Final = 2 * 1024 * 1024
# What the heap may keep at its end. To fix one limit fixes the other at 128 KiB, and the pages of every large request
# would be given back and faulted in anew: that doubles the cost of a gigabyte.
KEPT_BYTES: Final = 8 * LARGE_BYTES


def return_large_memory() -> bool:
    """Let memory of LARGE_BYTES or more go back to the system when it is freed; return whether the C library can.

    glibc raises its own limit to the largest piece that was ever freed, up to 32 MiB. From then on such pieces come
    from the heap of each thread and stay with the process: one refused batch per thread would cost megabytes for good.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(*limit) == 1 for limit in ((_M_TRIM_THRESHOLD, KEPT_BYTES), (_M_MMAP_THRESHOLD, LARGE_BYTES)))
