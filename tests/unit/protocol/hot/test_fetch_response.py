"""Byte equality with kio in all versions is a property test; here is how buffers are passed on."""

from __future__ import annotations

from uuid import UUID

import pytest

from crabka.ports import FileRange, Payload
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import read_response
from crabka.protocol.hot import FetchPartitionResult, FetchTopicResult, RecordParts, pack_fetch_response
from crabka.protocol.hot.fetch_response import INLINE_BYTES
from crabka.testing import MemoryFileSystem

TOPIC_ID = UUID(int=5)


def packed(version: int, *records: Payload | RecordParts) -> list[Payload]:
    partitions = [FetchPartitionResult(index, 0, 5, 5, 0, data) for index, data in enumerate(records)]
    return pack_fetch_response(version, 1, [FetchTopicResult("t", TOPIC_ID, partitions)])


def joined(frame: list[Payload]) -> bytes:
    return b"".join(part.read() if isinstance(part, FileRange) else part for part in frame)


@pytest.mark.parametrize("version", [4, 18])
def test_large_records_are_passed_on_uncopied(version: int) -> None:
    first, second = memoryview(bytes(INLINE_BYTES + 1)), b"x" * 70_000
    buffers = packed(version, first, second)
    assert buffers[1] is first
    assert buffers[3] is second
    frame = joined(buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@pytest.mark.parametrize("version", [4, 18])
@pytest.mark.parametrize("size", [1, INLINE_BYTES, 70_000])
def test_ranges_of_files_are_passed_on_and_counted(version: int, size: int) -> None:
    file = MemoryFileSystem().open("/log", create=True)
    file.pwritev([b"r" * size], 0)
    part = FileRange(file, 0, size, None)
    frame = packed(version, b"before", part, b"after")
    assert frame[1] is part
    assert joined(frame) == joined(packed(version, b"before", b"r" * size, b"after"))


@pytest.mark.parametrize("version", [4, 18])
def test_parts_of_records_follow_each_other_uncopied(version: int) -> None:
    file = MemoryFileSystem().open("/part", create=True)
    file.pwritev([b"z" * 3000], 0)
    large, small, ranged = memoryview(b"a" * 5000), b"b" * 10, FileRange(file, 0, 3000, None)
    parts = RecordParts([large, small, ranged])
    assert len(parts) == 8010
    buffers = packed(version, parts)
    assert any(buffer is large for buffer in buffers)
    assert any(buffer is ranged for buffer in buffers)
    assert joined(buffers) == joined(packed(version, b"a" * 5000 + b"b" * 10 + b"z" * 3000))


@pytest.mark.parametrize("version", [4, 18])
def test_small_records_are_joined_into_one_buffer(version: int) -> None:
    assert len(packed(version, b"a" * INLINE_BYTES, b"b")) == 1


@pytest.mark.parametrize(("version", "header"), [(4, 8), (18, 9)])
def test_an_idle_partition_has_empty_records_and_not_null(version: int, header: int) -> None:
    response = read_response(ApiKey.FETCH, version, joined(packed(version, b"")), header)
    assert response.responses[0].partitions[0].records == b""


def test_a_session_without_changes_is_a_single_small_buffer() -> None:
    frame = pack_fetch_response(18, 7, (), session_id=99)
    assert len(frame) == 1
    assert joined(frame) == b"\0\0\0\x11" + b"\0\0\0\7\0" + b"\0\0\0\0" + b"\0\0" + b"\0\0\0\x63" + b"\1" + b"\0"
