"""Walking over the batches of a log file, header by header, in large reads.

Knows the batch header and nothing of indexes or segments. Works on files of any size in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from crabka.ports import Buffer, File
from crabka.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, BatchHeader, parse_header

CHUNK_BYTES: Final = 64 * 1024
SMALL_CHUNK_BYTES: Final = 4 * 1024
_MIN_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD


def scan_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of the whole batches in [position, end); stops at one that cannot be right."""
    chunk: Buffer = b""
    chunk_start = position
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            chunk_start = position
            chunk = file.pread(min(CHUNK_BYTES, end - position), position)
            if len(chunk) < HEADER_SIZE:
                return
        header = parse_header(chunk, position - chunk_start)
        following = position + header.batch_length + LOG_OVERHEAD
        if header.batch_length < _MIN_BATCH_LENGTH or header.magic != MAGIC_V2 or following > end:
            return
        yield position, header
        position = following


def find_batch(
    read: Callable[[int, int], Buffer | None], position: int, end: int, offset: int
) -> tuple[int, BatchHeader | None] | None:
    """Return the position of the first batch that ends at or after `offset`, searching from `position` on.

    The header is None when no such batch exists before `end`; the whole answer is None when `read` had to refuse.
    A position where no batch can begin, from a wrong index, makes the search start over at the begin of the file.
    """
    chunk: Buffer = b""
    chunk_start = start = position
    while position + HEADER_SIZE <= end:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            chunk_start = position
            fresh = read(min(SMALL_CHUNK_BYTES, end - position), position)
            if fresh is None:
                return None
            chunk = fresh
            if len(chunk) < HEADER_SIZE:
                break
        header = parse_header(chunk, position - chunk_start)
        implausible = header.magic != MAGIC_V2 or header.batch_length < _MIN_BATCH_LENGTH
        if implausible or (position == start > 0 and header.base_offset > offset):
            if start == 0:
                break
            chunk = b""
            chunk_start = start = position = 0
            continue
        if header.base_offset + header.last_offset_delta >= offset:
            return position, header
        position += header.batch_length + LOG_OVERHEAD
    return end, None
