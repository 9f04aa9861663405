"""The walk over batches, fed whole, byte by byte and in between."""

from __future__ import annotations

import pytest

from crabka.records.header import iter_headers
from crabka.remote.scrub.batches import BrokenBatchError, walk_batches
from tests.support.tiers.planted import batches, transaction

LOG = batches(0, 3) + transaction(15, committed=False)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 60, 61, 62, 1000, len(LOG)])
def test_batches_are_the_same_however_the_bytes_come(size: int) -> None:
    walked = list(walk_batches(cut(LOG, size), len(LOG)))
    assert [(batch.position, batch.header) for batch in walked] == list(iter_headers(LOG))
    assert all(batch.crc_valid for batch in walked)


def test_empty_pieces_are_passed_over() -> None:
    pieces = [b"", LOG[:100], b"", b"", LOG[100:], b""]
    assert len(list(walk_batches(pieces, len(LOG)))) == 5


def test_a_marker_is_kept_as_a_whole_and_a_large_batch_only_at_its_start() -> None:
    *_, marker = walk_batches([LOG], len(LOG))
    assert marker.head == LOG[marker.position :]
    large = batches(0, 1, value=b"v" * 10_000)
    (walked,) = walk_batches(cut(large, 333), len(large))
    assert large.startswith(walked.head)
    assert len(walked.head) < 200


def test_a_wrong_checksum_does_not_end_the_walk() -> None:
    spoiled = bytearray(LOG)
    spoiled[70] ^= 1
    assert [batch.crc_valid for batch in walk_batches([spoiled], len(LOG))] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("data", "size", "position", "words"),
    [
        (LOG[:30], 100, 0, "inside of a header"),
        (b"", 100, 0, "the object ends at"),
        (LOG[:100], len(LOG), 0, "inside of a batch"),
        (LOG, 100, 0, "extends past the end"),
        (bytes(200), 200, 0, "no batch header"),
        (batches(0, 1) + bytes(70), len(batches(0, 1)) + 70, len(batches(0, 1)), "no batch header"),
    ],
)
def test_bytes_that_are_no_batches_end_the_walk(data: bytes, size: int, position: int, words: str) -> None:
    with pytest.raises(BrokenBatchError, match=words) as broken:
        list(walk_batches(cut(data, 50), size))
    assert broken.value.position == position
