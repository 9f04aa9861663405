from __future__ import annotations

import random
import struct

import pytest

from crabka.errors import WireError
from crabka.protocol.frames import CHUNK_BYTES, PARK_BYTES, READ_BYTES, ChunkPool, FrameBuffer


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


def test_two_buffers_never_share_a_chunk_that_has_bytes() -> None:
    pool = ChunkPool()
    first, second = FrameBuffer(pool=pool), FrameBuffer(pool=pool)
    data = framed(b"a" * (PARK_BYTES + 1))
    memory = first.get_buffer()
    memory[: len(data) - 1] = data[:-1]
    first.received(len(data) - 1)
    assert first.next_frame() is None
    assert first.get_buffer().obj is memory.obj
    assert second.get_buffer().obj is not memory.obj
    assert list(second.feed(framed(b"b" * 100))) == [b"b" * 100]
    assert [bytes(frame) for frame in first.feed(data[-1:])] == [b"a" * (PARK_BYTES + 1)]


def test_a_read_that_brings_nothing_takes_no_memory() -> None:
    pool = ChunkPool()
    buffers = [FrameBuffer(pool=pool) for _ in range(50)]
    list(buffers[7].feed(framed(b"parked")[:6]))
    assert len({id(buffer.get_buffer().obj) for buffer in buffers}) == 1
    assert [buffer.held_bytes for buffer in buffers if not buffer.is_empty] == [6]
    # What others read there in between is not taken for what was parked.
    list(buffers[3].feed(framed(b"z" * 50)))
    assert list(buffers[7].feed(framed(b"parked")[6:])) == [b"parked"]


def test_an_idle_buffer_reads_little_and_an_incomplete_frame_much() -> None:
    buffer = FrameBuffer()
    assert len(buffer.get_buffer()) == READ_BYTES
    list(buffer.feed(framed(bytes(CHUNK_BYTES))[:READ_BYTES]))
    assert len(buffer.get_buffer()) == CHUNK_BYTES - READ_BYTES


def test_what_a_frame_wants_is_known_once_it_is_not_small() -> None:
    buffer = FrameBuffer()
    data = framed(bytes(3 * CHUNK_BYTES))
    list(buffer.feed(data[:100]))
    assert (buffer.wanted_bytes, buffer.held_bytes) == (100, 100)
    list(buffer.feed(data[100 : PARK_BYTES + 1]))
    assert (buffer.wanted_bytes, buffer.held_bytes) == (len(data), CHUNK_BYTES)
    buffer.close()
    assert (buffer.wanted_bytes, buffer.held_bytes, buffer.is_empty) == (0, 0, True)


def test_whole_frames_that_have_to_wait_move_to_memory_of_their_size() -> None:
    pool = ChunkPool()
    buffer = FrameBuffer(pool=pool)
    memory = buffer.get_buffer()
    data = framed(b"one", b"two", b"three") + b"\0"
    memory[: len(data)] = data
    buffer.received(len(data))
    assert bytes(buffer.next_frame() or b"") == b"one"
    buffer.shrink()
    assert buffer.held_bytes == len(data) - 7
    assert pool.next_chunk() is not None
    assert pool.next_chunk().obj is memory.obj
    assert buffer.has_frame
    assert [bytes(frame) for frame in buffer.frames()] == [b"two", b"three"]
    assert not buffer.has_frame
    assert [bytes(frame) for frame in buffer.feed(framed(b"next")[1:])] == [b"next"]


@pytest.mark.parametrize(("data", "has_frame"), [(b"\0\0\0", False), (framed(b"ab")[:-1], False), (framed(b""), True)])
def test_whether_a_frame_is_there_is_known_without_taking_it(data: bytes, has_frame: bool) -> None:
    buffer = FrameBuffer(max_frame_bytes=10)
    buffer.get_buffer()[: len(data)] = data
    buffer.received(len(data))
    assert buffer.has_frame is has_frame
    assert (buffer.next_frame() is not None) is has_frame


def test_an_illegal_length_counts_as_a_frame() -> None:
    for length in (-1, 11):
        buffer = FrameBuffer(max_frame_bytes=10)
        buffer.get_buffer()[:4] = length.to_bytes(4, "big", signed=True)
        buffer.received(4)
        assert buffer.has_frame


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
    memory[:] = data[:READ_BYTES]
    frames = buffer.buffer_updated(READ_BYTES)
    kept = next(frames)
    buffer.retain()
    assert next(frames, None) is None
    assert [len(frame) for frame in buffer.feed(data[READ_BYTES:])] == [CHUNK_BYTES]
    assert bytes(kept) == b"kept"


def test_frames_left_alone_are_there_later_and_the_buffer_stays_writable() -> None:
    buffer = FrameBuffer()
    payload = b"p" * 1020
    data = framed(*[payload] * (CHUNK_BYTES // 1024))
    for _ in range(2):
        memory = buffer.get_buffer()
        memory[:] = data[buffer.pending_bytes :][: len(memory)]
        buffer.received(len(memory))
    assert buffer.pending_bytes == CHUNK_BYTES
    assert bytes(next(buffer.frames())) == payload
    memory = buffer.get_buffer()
    assert len(memory) > 0
    memory[:5] = framed(b"x")
    buffer.received(5)
    rest = [bytes(frame) for frame in buffer.frames()]
    assert rest == [payload] * (CHUNK_BYTES // 1024 - 1) + [b"x"]


def test_retain_without_bytes_holds_nothing() -> None:
    assert FrameBuffer().retain() == 0


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_frames_are_counted_without_taking_them(cut: int) -> None:
    buffer = FrameBuffer()
    data = framed(b"a") + framed(b"") + framed(b"cc")
    data = data[: len(data) - cut]
    buffer.get_buffer()[: len(data)] = data
    buffer.received(len(data))
    assert buffer.has_more_than(1)
    assert buffer.has_more_than(2) is (cut == 0)
    assert not buffer.has_more_than(3)
    assert len(list(buffer.frames())) == 3 - (cut > 0)


@pytest.mark.parametrize("length", [-1, 1 << 30])
def test_a_frame_of_illegal_length_is_none_that_waits(length: int) -> None:
    buffer = FrameBuffer()
    data = framed(b"a") + struct.pack(">i", length)
    buffer.get_buffer()[: len(data)] = data
    buffer.received(len(data))
    assert buffer.has_more_than(0)
    assert not buffer.has_more_than(1)
