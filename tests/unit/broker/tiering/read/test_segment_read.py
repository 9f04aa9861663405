"""Whole batches of one segment, whatever the index says and however late the bytes are."""

from __future__ import annotations

from array import array

import pytest

from crabka.broker.tiering.read.deadline import Deadline, RemoteWaitOverError
from crabka.broker.tiering.read.segment_read import SegmentPart, WantedBytes, locate, read_part
from crabka.formats.offset_index import OffsetIndex
from crabka.remote.errors import RemoteBackendError
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import run_with, virtual_time
from tests.support.storage.small import make_batch
from tests.support.tiers.bytes_source import BATCHES, LOG, NO_LIMIT, BytesSource

STARTS = [sum(map(len, BATCHES[:number])) for number in range(11)]


def full_index() -> OffsetIndex:
    index = OffsetIndex(0)
    for number in range(1, 10):
        index.append(3 * number + 2, STARTS[number])
    return index


def index_of(*entries: tuple[int, int]) -> OffsetIndex:
    """Return an index that says what it likes."""
    index = OffsetIndex(0)
    index._offsets, index._positions = array("I", [o for o, _ in entries]), array("I", [p for _, p in entries])
    return index


INDEXES = {
    "full": full_index(),
    "empty": OffsetIndex(0),
    "sparse": index_of((14, STARTS[4])),
    "in the middle of batches": index_of((5, STARTS[1] + 7), (20, STARTS[6] + 3)),
    "behind the offsets": index_of((2, STARTS[3]), (8, STARTS[9])),
}


def read(
    source: BytesSource,
    index: OffsetIndex,
    offset: int,
    max_bytes: int = NO_LIMIT,
    *,
    upper: int = 30,
    one: bool = True,
) -> SegmentPart | None:
    async def main() -> SegmentPart | None:
        return await read_part(source, index, WantedBytes(offset, max_bytes, upper, one), Deadline(100))

    return VirtualTimeLoop().run(main())


def content(part: SegmentPart | None) -> bytes:
    assert part is not None
    joined = b"".join(part.payloads)  # type: ignore[arg-type]
    assert len(joined) == part.byte_count
    return joined


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES.keys())
@pytest.mark.parametrize("offset", [0, 4, 13, 29])
def test_the_first_batch_holds_the_offset_whatever_the_index_says(index: OffsetIndex, offset: int) -> None:
    part = read(BytesSource(), index, offset)
    assert content(part) == LOG[STARTS[offset // 3] :]
    assert part is not None
    assert (part.next_offset, part.end_position) == (30, len(LOG))


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES.keys())
def test_a_batch_that_the_limit_cuts_is_left_out(index: OffsetIndex) -> None:
    part = read(BytesSource(), index, 4, STARTS[5] - STARTS[1] + 10)
    assert content(part) == LOG[STARTS[1] : STARTS[5]]
    assert part is not None
    assert (part.next_offset, part.end_position) == (15, STARTS[5])


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES.keys())
@pytest.mark.parametrize("upper", [15, 16, 18])
def test_batches_from_the_upper_offset_on_are_left_out(index: OffsetIndex, upper: int) -> None:
    assert content(read(BytesSource(), index, 4, upper=upper)) == LOG[STARTS[1] : STARTS[(upper + 2) // 3]]


def test_the_first_batch_comes_whole_if_progress_needs_it() -> None:
    assert content(read(BytesSource(), full_index(), 4, 1)) == BATCHES[1]
    assert content(read(BytesSource(), full_index(), 4, 1, one=False)) == b""
    assert content(read(BytesSource(), full_index(), 4, upper=3)) == b""


def test_of_many_batches_only_those_at_both_ends_are_looked_at() -> None:
    batches = [make_batch(3, value_bytes=5000, base_offset=3 * number) for number in range(60)]
    starts = [sum(map(len, batches[:number])) for number in range(60)]
    index = OffsetIndex(0)
    for number in range(1, 60):
        index.append(3 * number + 2, starts[number])
    source = BytesSource(b"".join(batches))
    part = read(source, index, 4, starts[50] + 70, upper=180)
    assert part is not None
    assert (part.next_offset, part.end_position) == (153, starts[51])
    assert source.peek_count < 10


def test_a_segment_without_the_offset_has_nothing() -> None:
    assert read(BytesSource(), full_index(), 30) is None


def test_what_is_late_is_left_out() -> None:
    assert content(read(BytesSource(comes=STARTS[7] + 5), OffsetIndex(0), 12)) == LOG[STARTS[4] : STARTS[7]]
    with pytest.raises(RemoteWaitOverError):
        read(BytesSource(comes=STARTS[4] + 70), OffsetIndex(0), 12)
    with pytest.raises(RemoteWaitOverError):
        read(BytesSource(comes=10), OffsetIndex(0), 12)


def test_a_segment_that_ends_within_a_batch_is_reported() -> None:
    with pytest.raises(RemoteBackendError, match="past the end"):
        read(BytesSource(LOG[:-1]), full_index(), 29)


@run_with(virtual_time)
async def test_a_batch_is_located() -> None:
    found = await locate(BytesSource(), full_index(), 16, Deadline(0))
    assert found is not None
    assert (found[0], found[1].base_offset) == (STARTS[5], 15)
    assert await locate(BytesSource(), full_index(), 30, Deadline(0)) is None
