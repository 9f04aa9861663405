"""Round trips and hostile bytes for record batches."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from crabka.records.builder import build_batch
from crabka.records.compression import compress, decompress
from crabka.records.errors import CorruptBatchError
from crabka.records.header import crc_valid, iter_headers, parse_header, sealed
from crabka.records.record import Record, decode_records
from crabka.records.rewrite import recompress
from crabka.records.varint import decode_varint, decode_varlong, encode_varint, varint_size

CODECS = st.integers(0, 4)
OPTIONAL_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), OPTIONAL_BYTES), max_size=3).map(tuple)
CONTENTS = st.lists(st.tuples(st.integers(0, 2**42), OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS), max_size=12)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varints_round_trip(value: int, tail: bytes) -> None:
    encoded = encode_varint(value)
    assert len(encoded) == varint_size(value)
    assert decode_varlong(encoded + tail, 0) == (value, len(encoded))


@given(st.integers(-(2**31), 2**31 - 1) | st.integers(-9_000, 9_000), st.binary(max_size=3))
def test_short_varints_round_trip(value: int, tail: bytes) -> None:
    encoded = encode_varint(value)
    assert decode_varint(encoded + tail, 0) == (value, len(encoded))


@given(CONTENTS, CODECS, CODECS, st.integers(0, 2**40))
@settings(max_examples=60)
def test_batches_round_trip_through_any_codec(
    contents: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: int,
    other_codec: int,
    base_offset: int,
) -> None:
    records = [Record(base_offset + index, *content) for index, content in enumerate(contents)]
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    changed = recompress(batch, other_codec)
    for each in (batch, changed):
        assert crc_valid(each, 0, parse_header(each))
        assert decode_records(each) == records


@given(CODECS, st.binary(max_size=300).map(lambda data: data * 50), st.integers(0, 20_000))
@settings(max_examples=60)
def test_decompression_gives_all_or_refuses(codec: int, data: bytes, limit: int) -> None:
    packed = compress(codec, data)
    try:
        assert decompress(codec, packed, limit) == data
    except CorruptBatchError:
        assert len(data) > limit


@given(CONTENTS, CODECS, st.data())
@settings(max_examples=150)
def test_damaged_batches_decode_or_raise_corrupt(
    contents: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    codec: int,
    data: st.DataObject,
) -> None:
    batch = bytearray(build_batch([Record(index, *content) for index, content in enumerate(contents)], codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatchError):
        decode_records(sealed(batch), max_decompressed_bytes=1_000_000)


@given(st.binary(max_size=400))
def test_walking_garbage_never_leaves_the_buffer(data: bytes) -> None:
    for position, header in iter_headers(data):
        assert position + header.size_in_bytes <= len(data)
