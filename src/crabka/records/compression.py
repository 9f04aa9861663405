"""The codecs of record batches: gzip, snappy, lz4 and zstd.

Writes what Kafka's Java clients can read: snappy in xerial framing, lz4 as frames of independent 64 KiB blocks.
Reads every form that clients produce: raw and xerial snappy, any lz4 and zstd frame, gzip with many members.
Decompression never holds more than `max_bytes` of output, so a small batch cannot fill the memory.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from crabka.ports import Buffer
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

    Raises CorruptBatchError when the data are broken or hold more, UnsupportedCompressionError for an unknown codec.
    """
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec == SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if codec == LZ4:
        return _decompress_frames("lz4", cramjam.lz4.decompress_into, data, max_bytes)
    if codec == ZSTD:
        return _decompress_frames("zstd", cramjam.zstd.decompress_into, data, max_bytes)
    raise UnsupportedCompressionError(codec)


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    rest = bytes(data)
    while rest:
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            # One byte more than allowed tells a full output from an overflowing one.
            part = member.decompress(rest, left + 1)
        except zlib.error as error:
            raise CorruptBatchError(f"broken gzip data: {error}") from error
        left -= len(part)
        if left < 0:
            raise _too_large("gzip", max_bytes)
        if not member.eof:
            raise CorruptBatchError("broken gzip data: a member is cut short")
        parts.append(part)
        rest = member.unused_data
    if not parts:
        raise CorruptBatchError("broken gzip data: empty")
    return b"".join(parts)


def _compress_xerial(data: Buffer) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += _INT.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytes:
    raw = bytes(data)
    if not raw.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(raw, max_bytes)
    parts: list[bytes] = []
    left = max_bytes
    position = len(_XERIAL_HEADER)
    if len(raw) < position:
        raise CorruptBatchError("broken snappy data: the header is cut short")
    while position < len(raw):
        start = position + _INT.size
        if start > len(raw):
            raise CorruptBatchError("broken snappy data: a block is cut short")
        (length,) = _INT.unpack_from(raw, position)
        position = start + length
        if length < 0 or position > len(raw):
            raise CorruptBatchError(f"broken snappy data: a block of {length} bytes does not fit")
        part = _decompress_snappy_block(raw[start:position], left)
        left -= len(part)
        parts.append(part)
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, max_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > max_bytes:
            raise _too_large("snappy", max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"broken snappy data: {error}") from error


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    # Kafka's Java reader refuses blocks that depend on each other.
    effort = _LZ4_FAST if level is None or level == DEFAULT_LZ4_LEVEL else level
    compressor = cramjam.lz4.Compressor(level=effort, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


def _decompress_frames(name: str, decompress_into: Callable[..., int], data: Buffer, max_bytes: int) -> bytes:
    """Decompress into a buffer that starts small and grows to `max_bytes`: frames need not tell their size."""
    raw = bytes(data)
    capacity = min(max(_FIRST_OUTPUT_BYTES, len(raw) * _OUTPUT_GROWTH), max_bytes)
    while True:
        out = bytearray(capacity)
        try:
            size = decompress_into(raw, out)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL_MESSAGE not in str(error):
                raise CorruptBatchError(f"broken {name} data: {error}") from error
            if capacity == max_bytes:
                raise _too_large(name, max_bytes) from error
            capacity = min(capacity * _OUTPUT_GROWTH, max_bytes)
        else:
            return bytes(memoryview(out)[:size])


def _too_large(name: str, max_bytes: int) -> CorruptBatchError:
    return CorruptBatchError(f"{name} data hold more than the allowed {max_bytes} bytes")
