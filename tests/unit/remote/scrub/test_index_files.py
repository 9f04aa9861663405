"""Index objects against the batches of their segment."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import pytest

from crabka.formats.transaction_index import AbortedTransaction, encode_aborted
from crabka.records.header import iter_headers
from crabka.remote.scrub.batches import walk_batches
from crabka.remote.scrub.index_files import (
    IndexFollower,
    OffsetIndexFollower,
    Report,
    TimeIndexFollower,
    TransactionIndexFollower,
)
from tests.support.tiers.planted import (
    FIRST_TIMESTAMP_MS,
    PRODUCER_ID,
    batches,
    offset_index,
    time_index,
    transaction,
)

START = 100
LOG = batches(START, 6)
POSITIONS = [position for position, _ in iter_headers(LOG)]


def follow(build: Callable[[Report], IndexFollower], log: bytes = LOG) -> list[str]:
    reported: list[str] = []
    follower = build(reported.append)
    for batch in walk_batches([log], len(log)):
        follower.see(batch)
    follower.finish()
    return reported


def offsets(*entries: tuple[int, int]) -> list[str]:
    data = b"".join(struct.pack(">II", *entry) for entry in entries)
    return follow(partial(OffsetIndexFollower, data, START))


def times(*entries: tuple[int, int]) -> list[str]:
    data = b"".join(struct.pack(">qI", *entry) for entry in entries)
    return follow(partial(TimeIndexFollower, data, START))


def test_a_true_offset_index_fits() -> None:
    assert follow(partial(OffsetIndexFollower, offset_index(LOG), START)) == []
    assert follow(partial(OffsetIndexFollower, b"", START)) == []


def test_zeros_behind_the_last_entry_are_no_entries() -> None:
    assert follow(partial(OffsetIndexFollower, offset_index(LOG) + bytes(80), START)) == []
    assert follow(partial(TimeIndexFollower, time_index(LOG) + bytes(120), START)) == []


def test_an_entry_may_name_the_last_of_batches_that_were_appended_together() -> None:
    assert offsets((14, POSITIONS[1])) == []


def test_every_flipped_bit_of_an_offset_index_is_found() -> None:
    data = offset_index(LOG)
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8
        assert follow(partial(OffsetIndexFollower, bytes(spoiled), START)), bit


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(9, POSITIONS[1] + 1)], "where no batch begins"),
        ([(4, POSITIONS[1])], "after that offset"),
        ([(8, POSITIONS[1])], "with which no batch ends"),
        ([(40, POSITIONS[5])], "with which no batch ends"),
        ([(29, len(LOG))], "after the last batch"),
        ([(14, POSITIONS[2]), (9, POSITIONS[3])], "do not rise"),
        ([(9, POSITIONS[2]), (14, POSITIONS[2])], "do not rise"),
    ],
)
def test_a_wrong_offset_index_is_found(entries: list[tuple[int, int]], words: str) -> None:
    (found,) = offsets(*entries)
    assert words in found


def test_an_index_of_an_odd_size_is_found() -> None:
    assert follow(partial(OffsetIndexFollower, b"123", START)) == ["its 3 bytes are no multiple of 8"]


def test_a_true_time_index_fits() -> None:
    assert follow(partial(TimeIndexFollower, time_index(LOG), START)) == []


def test_every_flipped_bit_of_a_time_index_is_found() -> None:
    data = time_index(LOG)
    missed = []
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8
        if not follow(partial(TimeIndexFollower, bytes(spoiled), START)):
            missed.append(bit)
    # An entry may name any offset of its batch: some bits of offsets lead from one of them to another.
    assert all(bit // 8 % 12 == 11 for bit in missed)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "ends with 0, the largest timestamp"),
        ([(FIRST_TIMESTAMP_MS + START + 9, 9)], "the largest timestamp of the segment"),
        ([(FIRST_TIMESTAMP_MS + START + 29, 24)], "the batch there says"),
        ([(FIRST_TIMESTAMP_MS + START + 29, 30)], "after the last batch"),
        ([(FIRST_TIMESTAMP_MS + START + 29, 29), (FIRST_TIMESTAMP_MS + START + 24, 24)], "do not rise"),
    ],
)
def test_a_wrong_time_index_is_found(entries: list[tuple[int, int]], words: str) -> None:
    found = times(*entries)
    assert any(words in line for line in found)


def aborts(
    log: bytes, *entries: AbortedTransaction, start: int = 0, open_at_start: dict[int, int] | None = None
) -> list[str]:
    data = encode_aborted(entries)

    def build(report: Report) -> IndexFollower:
        return TransactionIndexFollower(data, start, report, open_at_start)

    return follow(build, log)


def test_a_true_transaction_index_fits() -> None:
    log = transaction(0, committed=True) + transaction(3, committed=False)
    assert aborts(log, AbortedTransaction(PRODUCER_ID, 3, 5, 6)) == []


def test_a_corrupt_marker_is_no_fault_of_the_index() -> None:
    spoiled = bytearray(transaction(0, committed=False))
    spoiled[-1] ^= 4
    assert aborts(bytes(spoiled) + transaction(3, committed=False), AbortedTransaction(PRODUCER_ID, 0, 2, 3)) == []


def test_an_abort_may_end_what_began_in_an_earlier_segment() -> None:
    marker_only = transaction(0, committed=False)
    position = [position for position, _ in iter_headers(marker_only)][1]
    marker = marker_only[position:]
    entry = AbortedTransaction(PRODUCER_ID, 0, 2, 3)
    assert aborts(marker, entry, start=2) == []
    assert aborts(marker, start=2) == [], "it may have written nothing at all"
    assert aborts(marker, entry, start=2, open_at_start={PRODUCER_ID: 0}) == []
    assert aborts(marker, start=2, open_at_start={PRODUCER_ID: 0}) == ["lacks the abort of producer 77 at 2"]
    (found,) = aborts(marker, entry, start=2, open_at_start={PRODUCER_ID: 1})
    assert "begins at 0, the log has one from 1" in found
    (found,) = aborts(marker, entry, start=2, open_at_start={})
    assert "begins at 0, the log has none" in found


def test_the_oldest_open_transaction_is_the_last_stable_offset() -> None:
    other = transaction(0, committed=True, producer_id=88)
    positions = [position for position, _ in iter_headers(other)]
    log = other[: positions[1]] + transaction(2, committed=False)
    assert aborts(log, AbortedTransaction(PRODUCER_ID, 2, 4, 0)) == []
    (found,) = aborts(log, AbortedTransaction(PRODUCER_ID, 2, 4, 5))
    assert found == "says 5 for the last stable offset after the abort at 4, the log 0"


def test_the_last_stable_offset_may_be_the_next_transaction_that_a_follower_appended_with_the_marker() -> None:
    log = transaction(0, committed=False) + batches(3, 1) + transaction(8, committed=True, producer_id=88)
    log += transaction(11, committed=True, producer_id=99)
    assert aborts(log, AbortedTransaction(PRODUCER_ID, 0, 2, 8)) == []
    for stable in (4, 11, 20):
        (found,) = aborts(log, AbortedTransaction(PRODUCER_ID, 0, 2, stable))
        assert found == f"says {stable} for the last stable offset after the abort at 2, the log 3"


def test_every_flipped_bit_of_a_transaction_index_is_found() -> None:
    log = transaction(100, committed=True) + transaction(103, committed=False)
    data = encode_aborted([AbortedTransaction(PRODUCER_ID, 103, 105, 106)])
    for bit in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[bit // 8] ^= 1 << bit % 8

        def build(report: Report, index: bytes = bytes(spoiled)) -> IndexFollower:
            return TransactionIndexFollower(index, 100, report, {})

        assert follow(build, log), bit


def test_an_offset_index_that_was_cut_is_found_by_the_time_index() -> None:
    log = batches(0, 60, records_each=1, value=b"x" * 5_000)
    true, times_of_it = offset_index(log), time_index(log)
    for size, is_cut in ((len(true), False), (len(true) - 88, False), (len(true) - 96, True), (8, True), (0, True)):

        def build(report: Report, index: bytes = true[:size]) -> IndexFollower:
            return OffsetIndexFollower(index, 0, report, times_of_it)

        found = follow(build, log)
        assert [line for line in found if "too early" in line] == found
        assert bool(found) is is_cut, size


def test_an_offset_index_that_lacks_much_of_the_log_is_found_by_few_entries() -> None:
    log = batches(0, 20, records_each=1, value=b"x" * 300_000)
    times_of_it = time_index(log, every=9)

    def build(report: Report) -> IndexFollower:
        return OffsetIndexFollower(b"", 0, report, times_of_it)

    assert follow(build, log) == ["ends at position 0, too early: the time index has 2 entries of what follows"]


def test_stops_of_a_broker_leave_times_without_offsets() -> None:
    """As in a small segment that three clean stops and the roll each gave the largest timestamp so far."""
    ends = (9, 14, 24, 29)
    data = b"".join(struct.pack(">qI", FIRST_TIMESTAMP_MS + START + end, end) for end in ends)
    assert follow(partial(TimeIndexFollower, data, START)) == []
    assert follow(lambda report: OffsetIndexFollower(b"", START, report, data)) == []


def test_many_stops_of_a_broker_that_receives_little_leave_times_without_offsets() -> None:
    log = batches(0, 30, records_each=1, value=b"x" * 1_000)
    assert follow(lambda report: OffsetIndexFollower(b"", 0, report, time_index(log)), log) == []


def test_what_was_appended_together_is_indexed_as_a_whole() -> None:
    log = batches(0, 20, records_each=1, value=b"x" * 300_000)
    # The first ten batches came at once, and a stop was noted after four more.
    entry = struct.pack(">II", 9, 0)
    times_of_it = time_index(log)
    stop_and_roll = times_of_it[12 * 6 : 12 * 7] + times_of_it[-12:]
    assert follow(lambda report: OffsetIndexFollower(entry, 0, report, stop_and_roll), log) == []


def test_an_index_may_have_large_steps() -> None:
    log = batches(0, 20, records_each=1, value=b"x" * 300_000)
    true, times_of_it = offset_index(log), time_index(log)
    entries = [true[8 * number : 8 * (number + 1)] for number in (1, 5)]
    stop_and_roll = times_of_it[12 * 8 : 12 * 9] + times_of_it[-12:]
    assert follow(lambda report: OffsetIndexFollower(b"".join(entries), 0, report, stop_and_roll), log) == []


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "lacks the abort of producer 77 at 5"),
        ([AbortedTransaction(78, 3, 5, 6)], "has an abort of producer 78 at 5, the log has not"),
        ([AbortedTransaction(PRODUCER_ID, 0, 2, 3)], "has an abort of producer 77 at 2, the log has not"),
        ([AbortedTransaction(PRODUCER_ID, 3, 9, 10)], "after the last batch"),
        ([AbortedTransaction(PRODUCER_ID, 6, 5, 6)], "ends before its start"),
        ([AbortedTransaction(PRODUCER_ID, 3, 5, 6), AbortedTransaction(PRODUCER_ID, 3, 5, 6)], "do not rise"),
    ],
)
def test_a_wrong_transaction_index_is_found(entries: list[AbortedTransaction], words: str) -> None:
    log = transaction(0, committed=True) + transaction(3, committed=False)
    assert any(words in line for line in aborts(log, *entries))


def test_an_unknown_version_of_a_transaction_index_is_found() -> None:
    data = struct.pack(">hqqqq", 1, PRODUCER_ID, 3, 5, 6)
    log = transaction(0, committed=True) + transaction(3, committed=False)
    found = follow(partial(TransactionIndexFollower, data, 0), log)
    assert "version 1, known is 0" in found[0]
