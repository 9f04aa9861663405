"""The codecs of record batches: gzip, snappy, lz4 and zstd.

Writes what Kafka's Java clients can read: snappy in xerial framing, lz4 as frames of independent 64 KiB blocks.
Reads every form that clients produce: raw and xerial snappy, any lz4 and zstd frame, gzip with many members.
Decompression never holds more than twice `max_bytes` of output, so a small batch cannot fill the memory, and an error
refers to none of it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import cramjam

from crabka.ports import Buffer
from crabka.protocol.error_codes import ErrorCode
from crabka.records.errors import CorruptBatchError, UnsupportedCompressionError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CODECS_BY_NAME: Final = {name: codec for codec, name in enumerate(CODEC_NAMES)}

DEFAULT_LZ4_LEVEL: Final = 9
"""Kafka's default; it stands for the fast compressor, every other level for the thorough one."""
DEFAULT_ZSTD_LEVEL: Final = 3

_INT: Final = struct.Struct(">i")

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
# Given to zlib at a time: it copies what follows the end of a member, and a batch may have thousands of members.
_GZIP_PIECE_BYTES: Final = 16 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_FAST: Final = 1

_FIRST_OUTPUT_BYTES: Final = 64 * 1024
_OUTPUT_GROWTH: Final = 8
_OUTPUT_FULL_MESSAGE: Final = "failed to write whole buffer"


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed; `level` None means Kafka's default for the codec.

    Raises UnsupportedCompressionError for a codec that Kafka does not define.
    """
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return _compress_gzip(data, level)
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == LZ4:
        return _compress_lz4(data, level)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, DEFAULT_ZSTD_LEVEL if level is None else level))
    raise UnsupportedCompressionError(codec)


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """Return the uncompressed bytes, which may be `max_bytes` at most.

    Raises CorruptBatchError when the data are broken, or with MESSAGE_TOO_LARGE when they hold more;
    UnsupportedCompressionError for an unknown codec.
    """
    output: bytes | None
    if codec == NONE:
        output = bytes(data)
    elif codec == GZIP:
        output = _maybe_decompress_gzip(data, max_bytes)
    elif codec == SNAPPY:
        output = _maybe_decompress_snappy(data, max_bytes)
    elif codec == LZ4:
        output = _maybe_decompress_frames("lz4", cramjam.lz4.decompress_into, data, max_bytes)
    elif codec == ZSTD:
        output = _maybe_decompress_frames("zstd", cramjam.zstd.decompress_into, data, max_bytes)
    else:
        raise UnsupportedCompressionError(codec)
    if output is None:
        # Raised here and not where it is noticed: the error refers to all frames that it passed, with their buffers.
        # The code lets Java's producer split the batch and send its halves, which may well fit.
        raise CorruptBatchError(
            f"{CODEC_NAMES[codec]} data hold more than the allowed {max_bytes} bytes", ErrorCode.message_too_large
        )
    return output


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
    return compressor.compress(data) + compressor.flush()


def _maybe_decompress_gzip(data: Buffer, max_bytes: int) -> bytes | None:
    """Return None if the output is larger."""
    parts: list[bytes] = []
    left = max_bytes
    view = memoryview(data)
    position = 0
    while position < len(view) or not parts:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            piece = view[position : position + _GZIP_PIECE_BYTES]
            if not piece:
                raise CorruptBatchError(f"broken gzip data: {'a member is cut short' if position else 'empty'}")
            try:
                # One byte more than allowed shows the difference between a full output and one that is too large.
                part = member.decompress(piece, left + 1)
            except zlib.error as error:
                raise CorruptBatchError(f"broken gzip data: {error}") from error
            left -= len(part)
            if left < 0:
                return None
            position += len(piece) - len(member.unused_data)
            parts.append(part)
    return b"".join(parts)


def _compress_xerial(data: Buffer) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += _INT.pack(len(block))
        out += block
    return bytes(out)


def _maybe_decompress_snappy(data: Buffer, max_bytes: int) -> bytes | None:
    """Return None if the output is larger."""
    parts: list[bytes] = []
    left = max_bytes
    for block in snappy_blocks(memoryview(data)):
        part = _maybe_decompress_snappy_block(bytes(block), left)
        if part is None:
            return None
        left -= len(part)
        parts.append(part)
    return b"".join(parts)


def snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield the raw blocks of xerial framing, or all of what has no frame. Raises CorruptBatchError."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield data
        return
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise CorruptBatchError("broken snappy data: the header is cut short")
    while position < len(data):
        start = position + _INT.size
        if start > len(data):
            raise CorruptBatchError("broken snappy data: a block is cut short")
        (length,) = _INT.unpack_from(data, position)
        position = start + length
        if length < 0 or position > len(data):
            raise CorruptBatchError(f"broken snappy data: a block of {length} bytes does not fit")
        yield data[start:position]


def _maybe_decompress_snappy_block(block: bytes, max_bytes: int) -> bytes | None:
    try:
        if cramjam.snappy.decompress_raw_len(block) > max_bytes:
            return None
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"broken snappy data: {error}") from error


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    # Kafka's Java reader refuses blocks that depend on each other.
    effort = _LZ4_FAST if level is None or level == DEFAULT_LZ4_LEVEL else level
    compressor = cramjam.lz4.Compressor(level=effort, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _maybe_decompress_frames(
    name: str, decompress_into: Callable[..., int], data: Buffer, max_bytes: int
) -> bytes | None:
    """Decompress into a buffer that starts small and grows to `max_bytes`: frames need not state their size.

    Returns None if the output is larger.
    """
    raw = bytes(data)
    capacity = min(max(_FIRST_OUTPUT_BYTES, len(raw) * _OUTPUT_GROWTH), max_bytes)
    while True:
        output, complaint = _decompress_once(decompress_into, raw, capacity)
        if output is not None:
            return output
        if _OUTPUT_FULL_MESSAGE not in complaint:
            raise CorruptBatchError(f"broken {name} data: {complaint}")
        if capacity == max_bytes:
            return None
        capacity = min(capacity * _OUTPUT_GROWTH, max_bytes)


def _decompress_once(decompress_into: Callable[..., int], raw: bytes, capacity: int) -> tuple[bytes | None, str]:
    """Return the output if it fits, else None and why. No error refers to this frame, which has the buffer."""
    out = bytearray(capacity)
    try:
        size = decompress_into(raw, out)
    except cramjam.DecompressionError as error:
        return None, str(error)
    return bytes(memoryview(out)[:size]), ""
