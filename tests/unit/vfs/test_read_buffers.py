"""Buffers for large reads that are reused once no view of them is left."""

from __future__ import annotations

from crabka.vfs.read_buffers import BUFFER_BYTES, MAX_BUFFERS, ReadBuffers


def viewed(pool: ReadBuffers) -> memoryview:
    """Take a buffer as a reader does: the view is made before the buffer goes back."""
    buffer = pool.take()
    assert buffer is not None
    view = memoryview(buffer)
    pool.put(buffer)
    return view


def test_a_buffer_is_used_again_after_its_last_view_is_gone() -> None:
    pool = ReadBuffers()
    first = viewed(pool)
    part = first[10:20]
    first.release()
    other = viewed(pool)
    other[10:20] = b"x" * 10
    assert bytes(part) == bytes(10)
    part.release()
    other.release()
    again = pool.take()
    assert again is not None
    assert len(again) == BUFFER_BYTES


def test_no_more_than_the_limit_are_made() -> None:
    pool = ReadBuffers()
    views = [viewed(pool) for _ in range(MAX_BUFFERS)]
    assert pool.take() is None
    views.pop().release()
    assert pool.take() is not None
    assert pool.take() is None
