"""Responses out of a byte stream: whole, byte by byte, with a tail."""

from __future__ import annotations

import struct

import pytest

from crabka.clients.response_buffer import ResponseBuffer
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
    with pytest.raises(WireError):
        ResponseBuffer(100).feed(struct.pack(">i", length))
