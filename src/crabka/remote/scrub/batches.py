"""Walks over the batches of a segment that comes in pieces, with the checksum of each, in constant memory.

A batch is never held as a whole: its checksum runs along, so that a length that a flipped bit made huge costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from crabka.ports import Buffer
from crabka.records.header import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    BatchHeader,
    parse_header,
)

_KEPT_BYTES: Final = 128
"""Bytes after the header that are kept: enough for the one record of a transaction marker."""


class WalkedBatch(NamedTuple):
    """A batch that was passed: where it lies, what its header says, whether its checksum is right, how it begins."""

    position: int
    header: BatchHeader
    crc_valid: bool
    head: bytes


class BrokenBatchError(ValueError):
    """From `position` on the bytes are no batches; what follows cannot be found."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at position {position}")
        self.position = position


def walk_batches(pieces: Iterable[Buffer], size_bytes: int) -> Iterator[WalkedBatch]:
    """Yield the batches of a segment of that size. Raises BrokenBatchError where they end too early."""
    source = _Pieces(pieces)
    position = 0
    while position < size_bytes:
        raw = source.take(HEADER_SIZE)
        if len(raw) < HEADER_SIZE:
            reason = "the object ends inside of a header" if raw else "the object ends"
            raise BrokenBatchError(position, reason)
        header = parse_header(raw)
        length = header.batch_length + LOG_OVERHEAD
        if header.magic != MAGIC_V2 or header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
            raise BrokenBatchError(position, f"no batch header (magic {header.magic}, length {header.batch_length})")
        if position + length > size_bytes:
            raise BrokenBatchError(position, f"a batch of {length} bytes extends past the end of the segment")
        crc, head, missing = source.checksum(length - HEADER_SIZE, crc32c(raw[ATTRIBUTES_POSITION:]))
        if missing:
            raise BrokenBatchError(position, f"the object ends inside of a batch, {missing} bytes before its end")
        yield WalkedBatch(position, header, crc == header.crc, raw + head)
        position += length


class _Pieces:
    """The bytes of pieces, one after the other."""

    __slots__ = ("_iterator", "_piece", "_position")

    def __init__(self, pieces: Iterable[Buffer]) -> None:
        self._iterator = iter(pieces)
        self._piece: memoryview = memoryview(b"")
        self._position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer only at the end."""
        part = self._next(count)
        if len(part) == count:
            return bytes(part)
        parts = [bytes(part)]
        missing = count - len(part)
        while missing and (part := self._next(missing)):
            parts.append(bytes(part))
            missing -= len(part)
        return b"".join(parts)

    def checksum(self, count: int, crc: int) -> tuple[int, bytes, int]:
        """Pass over bytes; return the checksum run over them, the first of them, and how many were missing."""
        head = b""
        while count and (part := self._next(count)):
            if len(head) < _KEPT_BYTES:
                head += bytes(part[: _KEPT_BYTES - len(head)])
            crc = crc32c(part, crc)
            count -= len(part)
        return crc, head, count

    def _next(self, limit: int) -> memoryview:
        """Return up to `limit` bytes that lie in one piece, none at the end."""
        while self._position == len(self._piece):
            piece = next(self._iterator, None)
            if piece is None:
                return memoryview(b"")
            self._piece, self._position = memoryview(piece), 0
        part = self._piece[self._position : self._position + limit]
        self._position += len(part)
        return part
