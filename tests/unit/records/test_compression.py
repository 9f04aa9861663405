"""Codecs: every form clients write is read, what we write is what Kafka reads, bombs are refused."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import cramjam
import pytest

from crabka.protocol.error_codes import ErrorCode
from crabka.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from crabka.records.errors import CorruptBatchError, UnsupportedCompressionError

ALL = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"the same words again and again " * 7_000


@pytest.mark.parametrize("codec", [0, *ALL])
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one", "long"])
def test_round_trip(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), len(data) + 5) == data


@pytest.mark.parametrize("codec", ALL)
def test_output_beyond_the_limit_is_refused(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptBatchError, match="more than the allowed"):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", ALL)
def test_small_bomb_is_refused(codec: int) -> None:
    bomb = compress(codec, bytes(20_000_000))
    with pytest.raises(CorruptBatchError, match="more than the allowed") as caught:
        decompress(codec, bomb, 100_000)
    assert caught.value.error_code is ErrorCode.message_too_large, "a producer splits such a batch"


@pytest.mark.parametrize("codec", ALL)
def test_the_error_of_a_bomb_holds_nothing_of_it(codec: int) -> None:
    bomb = compress(codec, bytes(20_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError) as caught:
            decompress(codec, bomb, 10_000_000)
        held_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.__traceback__ is not None
    assert held_bytes < 1_000_000
    assert peak_bytes < 22_000_000, "twice the limit"


@pytest.mark.parametrize("codec", ALL)
def test_cut_data_are_refused(codec: int) -> None:
    packed = compress(codec, TEXT)
    for size in (1, 5, 9, 17, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptBatchError):
            decompress(codec, packed[:size], 1_000_000)


@pytest.mark.parametrize("codec", ALL)
def test_garbage_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, b"\xff" * 40, 1_000_000)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionError):
        compress(codec, b"x")
    with pytest.raises(UnsupportedCompressionError):
        decompress(codec, b"x", 10)


def test_gzip_members_are_joined_and_counted_together() -> None:
    packed = gzip.compress(b"first ") + gzip.compress(b"second")
    assert decompress(GZIP, packed, 12) == b"first second"
    with pytest.raises(CorruptBatchError):
        decompress(GZIP, packed, 11)


def test_snappy_is_written_in_xerial_blocks() -> None:
    packed = compress(SNAPPY, bytes(70_000))
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    sizes = []
    position = 16
    while position < len(packed):
        (length,) = struct.unpack_from(">i", packed, position)
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(packed[position + 4 : position + 4 + length]))))
        position += 4 + length
    assert sizes == [32_768, 32_768, 4_464]


def test_raw_snappy_is_read() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_lz4_is_written_as_independent_64_kib_blocks_without_content_checksum() -> None:
    packed = compress(LZ4, TEXT)
    flags, block_size = packed[4:6]
    assert flags >> 6 == 1
    assert flags & 0x20
    assert not flags & 0x04
    assert block_size == 0x40
    assert bytes(cramjam.lz4.decompress(packed)) == TEXT


def test_lz4_default_level_is_the_fast_compressor() -> None:
    assert compress(LZ4, TEXT, 9) == compress(LZ4, TEXT) == compress(LZ4, TEXT, 1)


def test_lz4_frame_with_linked_blocks_and_checksum_is_read() -> None:
    assert decompress(LZ4, bytes(cramjam.lz4.compress(TEXT)), len(TEXT)) == TEXT


@pytest.mark.parametrize(("codec", "low", "high"), [(GZIP, 1, 9), (LZ4, 2, 12), (ZSTD, 1, 19)])
def test_level_changes_the_output(codec: int, low: int, high: int) -> None:
    data = b"".join(b"%d:%d;" % (n, n * n % 97) for n in range(5_000))
    small, large = compress(codec, data, high), compress(codec, data, low)
    assert len(small) < len(large)
    assert decompress(codec, small, len(data)) == decompress(codec, large, len(data)) == data


def test_thousands_of_gzip_members_are_read() -> None:
    packed = gzip.compress(b"") * 5_000 + gzip.compress(TEXT) * 3
    assert decompress(GZIP, packed, 3 * len(TEXT)) == TEXT * 3
    with pytest.raises(CorruptBatchError, match="more than the allowed"):
        decompress(GZIP, packed, 3 * len(TEXT) - 1)
