"""Decompression into a buffer that serves many batches, one after the other.

Reads the same forms as `crabka.records.compression`, without a new buffer for each batch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import numpy as np

from crabka.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, snappy_blocks
from crabka.records.errors import CorruptBatchError, UnsupportedCompressionError
from crabka.spark.decode.kernels import Bytes

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_GZIP_PART_BYTES: Final = 4 << 20
_OUTPUT_FULL_MESSAGE: Final = "failed to write whole buffer"
_FIRST_BYTES: Final = 1 << 20

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER_BYTES: Final = 7
_LZ4_CONTENT_SIZE_BYTES: Final = 8
_LZ4_CHECKSUM_BYTES: Final = 4
_LZ4_BLOCK_CHECKSUM_FLAG: Final = 0x10
_LZ4_CONTENT_SIZE_FLAG: Final = 0x08
_LZ4_CONTENT_CHECKSUM_FLAG: Final = 0x04
# Version 1, independent blocks, no dictionary.
_LZ4_PLAIN_MASK: Final = 0xE3
_LZ4_PLAIN_FLAGS: Final = 0x60
_LZ4_LENGTH: Final = struct.Struct("<I")
_LZ4_STORED_FLAG: Final = 1 << 31


class OutputFullError(Exception):
    """The decompressed bytes do not fit in the room that was given."""


def decompress_into(codec: int, data: memoryview, output: Bytes) -> int:
    """Decompress to the start of `output`; returns how many bytes.

    Raises OutputFullError if they do not fit, CorruptBatchError if the data are broken or the codec is unknown.
    """
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedCompressionError(codec)
    try:
        return decompressor(data, output)
    except cramjam.DecompressionError as error:
        if _OUTPUT_FULL_MESSAGE in str(error):
            raise OutputFullError from error
        raise CorruptBatchError(f"broken {CODEC_NAMES[codec]} data: {error}") from error
    except zlib.error as error:
        raise CorruptBatchError(f"broken gzip data: {error}") from error


def _copy(data: memoryview, output: Bytes) -> int:
    if len(data) > len(output):
        raise OutputFullError
    output[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data)


def _gunzip(data: memoryview, output: Bytes) -> int:
    used = 0
    rest: bytes | memoryview = data
    while rest:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            # One byte more than there is room for shows whether a full output overflows.
            part = member.decompress(rest, min(len(output) - used + 1, _GZIP_PART_BYTES))
            used += _copy(memoryview(part), output[used:])
            if not part and not member.eof:
                raise CorruptBatchError("broken gzip data: a member is cut short")
            rest = member.unconsumed_tail
        rest = member.unused_data
    if not data:
        raise CorruptBatchError("broken gzip data: empty")
    return used


def _unsnap(data: memoryview, output: Bytes) -> int:
    used = 0
    for block in snappy_blocks(data):
        used += _unsnap_block(block, output[used:])
    return used


def _unsnap_block(block: memoryview, output: Bytes) -> int:
    size: int = cramjam.snappy.decompress_raw_len(block)
    if size > len(output):
        raise OutputFullError
    return cramjam.snappy.decompress_raw_into(block, output[:size].data)


def _unlz4(data: memoryview, output: Bytes) -> int:
    size = _unlz4_blocks(data, output)
    return cramjam.lz4.decompress_into(data, output.data) if size is None else size


def _unlz4_blocks(data: memoryview, output: Bytes) -> int | None:
    """Decompress the blocks of one plain frame one by one, which takes a third of the time of the general way.

    The checksums inside the frame are left alone: that of the batch covers all of them. Returns None for other
    frames, for broken data and for too little room: the general way reports these.
    """
    if len(data) < _LZ4_HEADER_BYTES or bytes(data[:4]) != _LZ4_MAGIC:
        return None
    flags = data[4]
    if flags & _LZ4_PLAIN_MASK != _LZ4_PLAIN_FLAGS:
        return None
    position = _LZ4_HEADER_BYTES + (_LZ4_CONTENT_SIZE_BYTES if flags & _LZ4_CONTENT_SIZE_FLAG else 0)
    after_block = _LZ4_CHECKSUM_BYTES if flags & _LZ4_BLOCK_CHECKSUM_FLAG else 0
    after_blocks = _LZ4_CHECKSUM_BYTES if flags & _LZ4_CONTENT_CHECKSUM_FLAG else 0
    used = 0
    while position + _LZ4_LENGTH.size <= len(data):
        (length,) = _LZ4_LENGTH.unpack_from(data, position)
        position += _LZ4_LENGTH.size
        if length == 0:
            return used if position + after_blocks == len(data) else None
        end = position + (length & ~_LZ4_STORED_FLAG)
        if end > len(data):
            return None
        block = data[position:end]
        try:
            used += (_copy if length & _LZ4_STORED_FLAG else _unlz4_block)(block, output[used:])
        except (cramjam.DecompressionError, OutputFullError):
            return None
        position = end + after_block
    return None


def _unlz4_block(block: memoryview, output: Bytes) -> int:
    return cramjam.lz4.decompress_block_into(block, output.data)


def _unzstd(data: memoryview, output: Bytes) -> int:
    return cramjam.zstd.decompress_into(data, output.data)


_DECOMPRESSORS: Final[dict[int, Callable[[memoryview, Bytes], int]]] = {
    NONE: _copy,
    GZIP: _gunzip,
    SNAPPY: _unsnap,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}


class Arena:
    """One buffer for the uncompressed records of many batches; it grows as far as it may and is used again."""

    def __init__(self, soft_max_bytes: int, hard_max_bytes: int) -> None:
        self._soft_max_bytes = soft_max_bytes  # for several batches together
        self._hard_max_bytes = max(soft_max_bytes, hard_max_bytes)  # for one batch alone
        self._buffer: Bytes = np.empty(min(_FIRST_BYTES, soft_max_bytes), np.uint8)
        self._used = 0

    @property
    def content(self) -> Bytes:
        """All bytes since the last `clear`; valid until the next one."""
        return self._buffer[: self._used]

    def clear(self) -> None:
        """Start again. A buffer that was enlarged for a single batch is released."""
        self._used = 0
        if len(self._buffer) > self._soft_max_bytes:
            self._buffer = np.empty(self._soft_max_bytes, np.uint8)

    def add(self, codec: int, data: memoryview) -> tuple[int, int] | None:
        """Return (start, end) of the batch's records in the content, None if a fuller arena must be used up first.

        Raises CorruptBatchError for broken data and for those that need more than one batch may.
        """
        while True:
            try:
                size = decompress_into(codec, data, self._buffer[self._used :])
            except OutputFullError:
                if not self._grow():
                    if self._used:
                        return None
                    raise CorruptBatchError(
                        f"{CODEC_NAMES[codec]} data hold more than the allowed {self._hard_max_bytes} bytes: they need "
                        "not be damaged, but this is the limit for the uncompressed records of one batch"
                    ) from None
            else:
                start = self._used
                self._used += size
                return start, self._used

    def _grow(self) -> bool:
        limit = self._soft_max_bytes if self._used else self._hard_max_bytes
        if len(self._buffer) >= limit:
            return False
        larger: Bytes = np.empty(min(2 * len(self._buffer), limit), np.uint8)
        larger[: self._used] = self._buffer[: self._used]
        self._buffer = larger
        return True
