"""A file for a library that takes nothing else, with what no other process may see."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def passing_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file that only this process can read and that is gone afterwards.

    On Linux it is in memory, so that a private key never gets to a disk.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("passing")
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
