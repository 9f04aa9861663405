"""Responses out of a byte stream: whole, byte by byte, with a tail."""

from __future__ import annotations

import struct

import pytest

from crabka.clients.cluster.response_buffer import CHUNK_BYTES, MAX_FIRST_BYTES, ResponseBuffer, ResponseLengthError
from crabka.errors import WireError


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def test_several_frames_in_one_piece() -> None:
    assert ResponseBuffer(100).feed(framed(b"one", b"", b"three")) == [b"one", b"", b"three"]


def test_byte_by_byte() -> None:
    buffer = ResponseBuffer(100)
    received = [frame for byte in framed(b"one", b"", b"three") for frame in buffer.feed(bytes([byte]))]
    assert received == [b"one", b"", b"three"]


def test_tail_is_kept_for_the_next_piece() -> None:
    buffer = ResponseBuffer(100)
    data = framed(b"one", b"second")
    assert buffer.feed(data[:-2]) == [b"one"]
    assert buffer.feed(data[-2:] + framed(b"3")) == [b"second", b"3"]


@pytest.mark.parametrize("length", [-1, 101, 2**31 - 1])
def test_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(ResponseLengthError, match=r"begins with b'.*', which is no length up to 100 bytes") as caught:
        ResponseBuffer(100).feed(struct.pack(">i", length))
    assert caught.value.length == length
    assert isinstance(caught.value, WireError)


@pytest.mark.parametrize("size", [CHUNK_BYTES - 4, CHUNK_BYTES - 3, CHUNK_BYTES, 3 * CHUNK_BYTES])
@pytest.mark.parametrize("piece", [1000, 65_536, 1 << 20])
def test_large_responses_between_small_ones(size: int, piece: int) -> None:
    buffer = ResponseBuffer(1 << 20)
    frames = [b"first", bytes(range(256)) * (size // 256) + b"x" * (size % 256), b"", b"last"]
    data = framed(*frames) * 2
    received = [frame for start in range(0, len(data), piece) for frame in buffer.feed(data[start : start + piece])]
    assert received == frames * 2


def test_the_memory_of_a_huge_response_grows_with_what_comes() -> None:
    buffer = ResponseBuffer(1 << 30)
    assert buffer.feed(struct.pack(">i", 1 << 30) + b"x") == []
    assert len(buffer.get_buffer()) == MAX_FIRST_BYTES - 1
    assert buffer.feed(bytes(MAX_FIRST_BYTES - 1)) == []
    assert len(buffer.get_buffer()) == MAX_FIRST_BYTES


def test_a_response_that_grew_is_whole() -> None:
    buffer = ResponseBuffer(1 << 30)
    frame = bytes(range(256)) * (MAX_FIRST_BYTES // 256) + b"the end"
    received = buffer.feed(framed(frame, b"next"))
    assert received == [frame, b"next"]


def test_large_responses_stay_as_they_are_while_others_come() -> None:
    buffer = ResponseBuffer(1 << 20)
    (first,) = buffer.feed(framed(b"1" * CHUNK_BYTES))
    buffer.feed(framed(b"2" * CHUNK_BYTES, b"3"))
    assert bytes(first) == b"1" * CHUNK_BYTES
