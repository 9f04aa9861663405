"""Decompression into an arena: all forms of all codecs, room that is too small, broken data."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
import lz4.frame
import numpy as np
import pytest

from crabka.records.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from crabka.records.errors import CorruptBatchError, UnsupportedCompressionError
from crabka.spark.decode import codecs
from crabka.spark.decode.codecs import Arena, OutputFullError, decompress_into

TEXT = b"".join(b"record %d of some text; " % (index * 7919 % 1000) for index in range(9_000))
NOISE = np.random.default_rng(1).bytes(100_000)


def unpacked(codec: int, data: bytes, room: int = 1_000_000) -> bytes:
    memory = np.zeros(room + 64, np.uint8)
    size = decompress_into(codec, memoryview(data), memory[:room])
    assert not memory[room:].any(), "bytes were written after the output"
    return memory[:size].tobytes()


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD], ids=CODEC_NAMES)
@pytest.mark.parametrize("content", [TEXT, NOISE, b"x"], ids=["text", "noise", "byte"])
def test_every_codec_gives_what_was_compressed(codec: int, content: bytes) -> None:
    packed = compress(codec, content)
    assert unpacked(codec, packed) == content
    assert unpacked(codec, packed, room=len(content)) == content
    with pytest.raises(OutputFullError):
        unpacked(codec, packed, room=len(content) - 1)


def test_other_forms_of_the_codecs_are_read() -> None:
    assert unpacked(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    assert unpacked(GZIP, gzip.compress(TEXT[:5_000]) + gzip.compress(TEXT[5_000:])) == TEXT
    assert unpacked(ZSTD, compress(ZSTD, TEXT) + compress(ZSTD, NOISE)) == TEXT + NOISE
    assert unpacked(LZ4, compress(LZ4, TEXT) + compress(LZ4, NOISE)) == TEXT + NOISE


@pytest.mark.parametrize("content", [TEXT, NOISE], ids=["text", "noise"])
@pytest.mark.parametrize("block_linked", [True, False])
@pytest.mark.parametrize("block_checksum", [True, False])
@pytest.mark.parametrize("content_checksum", [True, False])
@pytest.mark.parametrize("store_size", [True, False])
def test_every_kind_of_lz4_frame_is_read(
    content: bytes, block_linked: bool, block_checksum: bool, content_checksum: bool, store_size: bool
) -> None:
    packed = lz4.frame.compress(
        content,
        block_linked=block_linked,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert unpacked(LZ4, packed) == content


def test_plain_lz4_frames_take_the_short_way() -> None:
    output = np.zeros(1_000_000, np.uint8)
    packed = lz4.frame.compress(TEXT, block_linked=False, content_checksum=True)
    assert codecs._unlz4_blocks(memoryview(packed), output) == len(TEXT)
    assert codecs._unlz4_blocks(memoryview(compress(LZ4, TEXT)), output) == len(TEXT)
    assert codecs._unlz4_blocks(memoryview(packed)[:-1], output) is None
    assert codecs._unlz4_blocks(memoryview(packed + b"\0"), output) is None
    assert codecs._unlz4_blocks(memoryview(packed), output[:100]) is None
    assert codecs._unlz4_blocks(memoryview(lz4.frame.compress(TEXT, block_linked=True)), output) is None


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("cut", [0, 1, 5, 12, 18, 100])
def test_data_that_are_cut_short_are_refused_where_records_refuses_them(codec: int, cut: int) -> None:
    packed = compress(codec, TEXT)[:cut]
    try:
        expected: bytes | None = decompress(codec, packed, 1_000_000)
    except CorruptBatchError:
        expected = None
    if expected is None:
        with pytest.raises(CorruptBatchError, match="broken"):
            unpacked(codec, packed)
    else:
        assert unpacked(codec, packed) == expected


def test_broken_blocks_of_snappy_are_refused() -> None:
    packed = bytearray(compress(SNAPPY, TEXT))
    packed[16:20] = b"\x7f\xff\xff\xff"
    with pytest.raises(CorruptBatchError, match="does not fit"):
        unpacked(SNAPPY, bytes(packed))
    with pytest.raises(CorruptBatchError, match="block is cut short"):
        unpacked(SNAPPY, compress(SNAPPY, b"") + b"\0")


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(UnsupportedCompressionError):
        unpacked(5, b"")


def test_batches_lie_one_after_the_other_in_the_arena() -> None:
    arena = Arena(10_000_000, 10_000_000)
    spans = [arena.add(codec, memoryview(compress(codec, TEXT))) for codec in (LZ4, NONE, ZSTD)]
    assert spans == [(index * len(TEXT), (index + 1) * len(TEXT)) for index in range(3)]
    assert arena.content.tobytes() == TEXT * 3
    arena.clear()
    assert len(arena.content) == 0


def test_an_arena_grows_for_one_batch_further_than_for_several() -> None:
    arena = Arena(300_000, 3_000_000)
    assert arena.add(LZ4, memoryview(compress(LZ4, TEXT))) == (0, len(TEXT))
    assert arena.add(LZ4, memoryview(compress(LZ4, TEXT))) is None
    assert arena.content.tobytes() == TEXT
    arena.clear()
    assert arena.add(ZSTD, memoryview(compress(ZSTD, TEXT * 10))) == (0, 10 * len(TEXT))
    assert arena.content.tobytes() == TEXT * 10
    arena.clear()
    assert arena.add(LZ4, memoryview(compress(LZ4, TEXT))) == (0, len(TEXT))


def test_gzip_takes_no_second_buffer_of_the_size_of_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "_GZIP_PART_BYTES", 1_000)
    packed = compress(GZIP, TEXT) + compress(GZIP, b"") + compress(GZIP, bytes(50_000))
    output = np.zeros(len(TEXT) + 50_000, np.uint8)
    tracemalloc.start()
    try:
        assert decompress_into(GZIP, memoryview(packed), output) == len(output)
        assert tracemalloc.get_traced_memory()[1] < len(output) / 3
    finally:
        tracemalloc.stop()
    assert output.tobytes() == TEXT + bytes(50_000)
    with pytest.raises(OutputFullError):
        decompress_into(GZIP, memoryview(packed), output[:-1])
    with pytest.raises(CorruptBatchError, match="cut short"):
        decompress_into(GZIP, memoryview(packed)[:-20], output)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_is_refused(codec: int) -> None:
    arena = Arena(100_000, 2_000_000)
    with pytest.raises(CorruptBatchError, match="more than the allowed 2000000 bytes"):
        arena.add(codec, memoryview(compress(codec, bytes(2_000_001))))
    assert arena.add(codec, memoryview(compress(codec, bytes(2_000_000)))) == (0, 2_000_000)
