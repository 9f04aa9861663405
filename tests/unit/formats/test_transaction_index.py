from __future__ import annotations

import pytest

from crabka.errors import CorruptDataError
from crabka.formats.transaction_index import AbortedTransaction, decode_aborted, encode_aborted, overlapping
from tests.support.recorded.files import GOLDEN

ENTRIES = [AbortedTransaction(32, 68, 74, 62), AbortedTransaction(31, 79, 92, 93)]


def test_kafkas_file_reads_and_writes_back_equal() -> None:
    data = (GOLDEN / "single/d2/txn-0/00000000000000000074.txnindex").read_bytes()
    assert decode_aborted(data) == ENTRIES
    assert encode_aborted(ENTRIES) == data


@pytest.mark.parametrize(
    ("fetch", "upper", "found", "complete"),
    [
        (0, 60, [], True),
        (0, 62, [], True),
        (0, 70, ENTRIES[:1], True),
        (0, 100, ENTRIES, False),
        (75, 93, ENTRIES[1:], True),
        (93, 100, [], False),
    ],
)
def test_overlapping_entries(fetch: int, upper: int, found: list[AbortedTransaction], complete: bool) -> None:
    assert overlapping(ENTRIES, fetch, upper) == (found, complete)


@pytest.mark.parametrize(
    "data",
    [b"\x00" * 33, b"\x00\x01" + bytes(32), encode_aborted([ENTRIES[1], ENTRIES[0]])],
    ids=["size", "version", "order"],
)
def test_damaged_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_aborted(data, "path")
