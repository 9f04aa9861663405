"""Copies between files by reading and writing, for file systems without a faster way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from crabka.ports import File

CHUNK_BYTES: Final = 1024 * 1024


def copy_by_reading(source: File, target: File, length: int, position: int) -> int:
    """Copy bytes to the same position of another file; return how many, fewer only at the end of the source."""
    done = 0
    while done < length:
        data = source.pread(min(CHUNK_BYTES, length - done), position + done)
        if not data:
            break
        done += target.pwritev([data], position + done)
    return done
