from __future__ import annotations

import random

import pytest

from crabka.errors import WireError
from crabka.protocol.frames import CHUNK_BYTES, PARK_BYTES, ChunkPool, FrameBuffer


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def feed(buffer: FrameBuffer, data: bytes, step: int) -> list[bytes]:
    frames = []
    for start in range(0, len(data), step):
        frames += [bytes(frame) for frame in buffer.feed(data[start : start + step])]
    return frames


PAYLOADS = (b"", b"a", b"bc" * 50, bytes(range(256)) * 40)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 1000, 10**6])
def test_frames_come_out_however_the_bytes_come_in(step: int) -> None:
    buffer = FrameBuffer()
    assert feed(buffer, framed(*PAYLOADS) + b"\0\0", step) == list(PAYLOADS)
    assert buffer.pending_bytes == 2


def test_frames_larger_than_a_chunk_arrive_whole(rng: random.Random) -> None:
    payloads = [rng.randbytes(size) for size in (CHUNK_BYTES - 4, CHUNK_BYTES, 3 * CHUNK_BYTES + 5, 10, PARK_BYTES)]
    for step in (1000, 65_536, CHUNK_BYTES, 10**7):
        assert feed(FrameBuffer(), framed(*payloads), step) == payloads


def test_random_sizes_and_steps(rng: random.Random) -> None:
    buffer = FrameBuffer()
    payloads = [rng.randbytes(rng.choice((0, 3, 100, 5000, 70_000, 300_000))) for _ in range(60)]
    data = framed(*payloads)
    received = []
    position = 0
    while position < len(data):
        step = rng.choice((1, 10, 4096, 65_536, 500_000))
        received += feed(buffer, data[position : position + step], step)
        position += step
    assert received == payloads
    assert buffer.held_bytes == 0


def test_frames_are_read_only_views_without_a_copy() -> None:
    buffer = FrameBuffer()
    memory = buffer.get_buffer()
    memory[:7] = framed(b"abc")
    (frame,) = buffer.buffer_updated(7)
    assert frame.readonly
    assert frame.obj is memory.obj


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_illegal_lengths_are_refused_without_growing(length: int) -> None:
    buffer = FrameBuffer(max_frame_bytes=1000)
    with pytest.raises(WireError, match=f"claims {length} bytes"):
        list(buffer.feed(length.to_bytes(4, "big", signed=True)))
    assert buffer.held_bytes <= CHUNK_BYTES


def test_a_frame_of_the_maximum_length_passes() -> None:
    buffer = FrameBuffer(max_frame_bytes=1000)
    assert [len(frame) for frame in buffer.feed(framed(bytes(1000)))] == [1000]


def test_an_idle_buffer_holds_no_memory() -> None:
    buffer = FrameBuffer()
    assert buffer.held_bytes == 0
    list(buffer.feed(framed(b"abc")))
    assert buffer.held_bytes == 0
    list(buffer.feed(framed(bytes(5 * CHUNK_BYTES))))
    assert buffer.held_bytes == 0


def test_a_small_incomplete_frame_holds_only_its_own_bytes() -> None:
    buffer = FrameBuffer()
    list(buffer.feed(framed(b"abc") + framed(bytes(100))[:50]))
    assert buffer.held_bytes == 50


def test_a_claimed_length_alone_allocates_nothing() -> None:
    buffer = FrameBuffer()
    list(buffer.feed((90 << 20).to_bytes(4, "big")))
    assert buffer.held_bytes == 4
    list(buffer.feed(bytes(CHUNK_BYTES + 10)))
    assert buffer.held_bytes == 2 * CHUNK_BYTES


def test_chunks_are_shared_by_buffers_that_take_turns() -> None:
    pool = ChunkPool()
    memories = set()
    for _ in range(3):
        buffer = FrameBuffer(pool=pool)
        memory = buffer.get_buffer()
        memory[:5] = framed(b"x")
        assert [bytes(frame) for frame in buffer.buffer_updated(5)] == [b"x"]
        memories.add(id(memory.obj))
    assert len(memories) == 1


def test_two_buffers_never_write_to_the_same_chunk() -> None:
    pool = ChunkPool()
    first, second = FrameBuffer(pool=pool), FrameBuffer(pool=pool)
    assert first.get_buffer().obj is not second.get_buffer().obj


def test_the_pool_keeps_a_limited_number_of_chunks() -> None:
    pool = ChunkPool(limit=1)
    first, second = pool.take(), pool.take()
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take() is first
    assert pool.take() is not second


def test_retained_frames_are_never_overwritten() -> None:
    pool = ChunkPool()
    buffer = FrameBuffer(pool=pool)
    memory = buffer.get_buffer()
    data = framed(b"kept", b"other") + b"\0\0"
    memory[: len(data)] = data
    frames = buffer.buffer_updated(len(data))
    kept = next(frames)
    assert buffer.retain() == CHUNK_BYTES
    assert [bytes(frame) for frame in frames] == [b"other"]
    for _ in range(3):
        assert [bytes(frame) for frame in buffer.feed(framed(b"z" * 5000)[2:] + b"\0\0")] == [b"z" * 5000]
    assert bytes(kept) == b"kept"


def test_retained_frames_survive_the_move_of_a_large_tail() -> None:
    buffer = FrameBuffer()
    memory = buffer.get_buffer()
    data = framed(b"kept", b"y" * CHUNK_BYTES)
    memory[:] = data[:CHUNK_BYTES]
    frames = buffer.buffer_updated(CHUNK_BYTES)
    kept = next(frames)
    buffer.retain()
    assert next(frames, None) is None
    assert [len(frame) for frame in buffer.feed(data[CHUNK_BYTES:])] == [CHUNK_BYTES]
    assert bytes(kept) == b"kept"


def test_frames_left_alone_are_there_later_and_the_buffer_stays_writable() -> None:
    buffer = FrameBuffer()
    payload = b"p" * 1020
    data = framed(*[payload] * (CHUNK_BYTES // 1024))
    buffer.get_buffer()[:] = data
    frames = buffer.buffer_updated(CHUNK_BYTES)
    assert bytes(next(frames)) == payload
    memory = buffer.get_buffer()
    assert len(memory) > 0
    memory[:5] = framed(b"x")
    buffer.received(5)
    rest = [bytes(frame) for frame in buffer.frames()]
    assert rest == [payload] * (CHUNK_BYTES // 1024 - 1) + [b"x"]


def test_retain_without_bytes_holds_nothing() -> None:
    assert FrameBuffer().retain() == 0
