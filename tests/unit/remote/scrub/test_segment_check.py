"""Content of one segment: a clean one has no fault, and every planted one is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.formats.transaction_index import AbortedTransaction
from crabka.records.header import iter_headers
from crabka.remote.errors import RemoteBackendError
from crabka.remote.scrub import TierFaultKind, check_segment
from crabka.remote.scrub.segment_check import SegmentFindings
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from tests.support.tiers.planted import PRODUCER_ID, PlantedTier, batches, transaction, two_segments


def faults_of(tier: PlantedTier, segment: RemoteLogSegmentMetadata) -> list[tuple[TierFaultKind, str]]:
    return [(fault.kind, fault.detail) for fault in check_segment(tier.storage, segment).faults]


def kinds_of(tier: PlantedTier, segment: RemoteLogSegmentMetadata) -> list[TierFaultKind]:
    return [kind for kind, _ in faults_of(tier, segment)]


def test_clean_segments_have_no_faults() -> None:
    tier = two_segments()
    for segment in tier.segments:
        assert faults_of(tier, segment) == []


def test_all_bytes_of_the_log_are_counted() -> None:
    tier = two_segments()
    counted: list[int] = []
    check_segment(tier.storage, tier.segments[0], on_bytes=counted.append)
    assert sum(counted) == tier.segments[0].segment_size_bytes
    assert max(counted) <= 100


@pytest.mark.parametrize("byte", [21, 30, 70, 200, -1])
def test_a_flipped_bit_below_the_checksum_is_found(byte: int) -> None:
    tier = two_segments()
    tier.flip(tier.segments[0], None, 8 * byte)
    assert TierFaultKind.CORRUPT_BATCH in kinds_of(tier, tier.segments[0])


def test_every_flipped_bit_of_a_log_is_found() -> None:
    """Also those outside of the checksum: offset, length, epoch and magic."""
    log = batches(0, 2, records_each=1, value=b"")
    tier = PlantedTier()
    segment = tier.add(log, [(0, 0)])
    for bit in range(8 * len(log)):
        tier.put(segment, None, log)
        tier.flip(segment, None, bit)
        assert kinds_of(tier, segment), bit


def test_a_corrupt_batch_names_its_offset_and_the_others_are_still_checked() -> None:
    tier = two_segments()
    positions = [position for position, _ in iter_headers(tier.get(tier.segments[0], None))]
    for batch in (1, 4):
        tier.flip(tier.segments[0], None, 8 * (positions[batch] + 65))
    assert faults_of(tier, tier.segments[0]) == [
        (
            TierFaultKind.CORRUPT_BATCH,
            f".log: the batch of offset 5 at position {positions[1]} has a wrong checksum (and 1 more)",
        )
    ]


def test_a_truncated_log_is_found_where_it_ends() -> None:
    tier = two_segments()
    segment = tier.segments[0]
    positions = [position for position, _ in iter_headers(tier.get(segment, None))]
    for size, words in ((positions[3] + 70, "inside of a batch"), (positions[3] + 9, "inside of a header")):
        tier.put(segment, None, tier.get(two_segments().segments[0], None)[:size])
        ((kind, detail),) = faults_of(tier, segment)
        assert kind is TierFaultKind.CORRUPT_BATCH
        assert words in detail
        assert detail.endswith(f"at position {positions[3]}, after offset 14") or "before its end" in detail


def test_a_log_that_is_too_long_is_found() -> None:
    tier = two_segments()
    tier.put(tier.segments[0], None, tier.get(tier.segments[0], None) + b"\0")
    assert kinds_of(tier, tier.segments[0]) == [TierFaultKind.WRONG_SIZE]


def test_a_length_that_leads_behind_the_end_is_found() -> None:
    tier = two_segments()
    tier.flip(tier.segments[0], None, 8 * 8 + 6)
    ((kind, detail),) = faults_of(tier, tier.segments[0])
    assert kind is TierFaultKind.CORRUPT_BATCH
    assert "extends past the end of the segment at position 0, after offset -1" in detail


@pytest.mark.parametrize("part", [None, *(each for each in IndexType if each is not IndexType.TRANSACTION)])
def test_a_missing_object_is_found(part: IndexType | None) -> None:
    tier = two_segments()
    tier.remove(tier.segments[1], part)
    suffix = ".log" if part is None else part.value
    assert faults_of(tier, tier.segments[1]) == [(TierFaultKind.MISSING_OBJECT, f"{suffix}: is not there")]


def test_a_store_that_fails_is_reported_as_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = two_segments()

    def fail(*_: object) -> bytes:
        raise RemoteBackendError("no route to the store")

    monkeypatch.setattr(tier.storage, "fetch_index", fail)
    monkeypatch.setattr(tier.storage, "fetch_log_segment", fail)
    found = faults_of(tier, tier.segments[0])
    assert {kind for kind, _ in found} == {TierFaultKind.UNREADABLE}
    assert len(found) == 6
    assert all(detail.endswith("no route to the store") for _, detail in found)


def test_a_hole_between_batches_is_found() -> None:
    tier = PlantedTier()
    segment = tier.add(batches(0, 2) + batches(15, 1), [(0, 0)])
    assert faults_of(tier, segment) == [
        (TierFaultKind.OFFSETS_IN_SEGMENT, ".log: a batch begins with offset 15 where 10 is due")
    ]


def test_an_end_that_the_metadata_does_not_know_is_found() -> None:
    tier = two_segments()
    segment = replace(tier.segments[0], end_offset=31)
    assert faults_of(tier, segment) == [(TierFaultKind.OFFSETS_IN_SEGMENT, ".log: ends with offset 29, not with 31")]


def test_a_batch_of_another_epoch_than_the_metadata_says_is_found() -> None:
    tier = PlantedTier()
    segment = tier.add(batches(0, 2) + batches(10, 2, epoch=1), [(0, 0), (1, 15)])
    assert faults_of(tier, segment) == [
        (TierFaultKind.EPOCHS_IN_SEGMENT, ".log: offset 10 is of epoch 1, the metadata says 0")
    ]


def test_batches_from_before_the_log_start_may_be_of_epochs_that_were_forgotten() -> None:
    tier = PlantedTier()
    # Records up to 9 were deleted before the segment was copied.
    segment = replace(tier.add(batches(0, 2) + batches(10, 2, epoch=1), [(0, 0), (1, 10)]), leader_epochs=((1, 10),))
    tier.put(segment, IndexType.LEADER_EPOCH, b"0\n1\n1 10\n")
    assert faults_of(tier, segment) == []


def test_overlapping_epochs_in_the_metadata_are_found() -> None:
    tier = two_segments()
    overlapping = replace(tier.segments[1], leader_epochs=((0, 30), (1, 45), (2, 45)))
    assert TierFaultKind.EPOCHS_IN_SEGMENT in kinds_of(tier, overlapping)
    outside = replace(tier.segments[1], leader_epochs=((0, 30), (2, 60)))
    assert (
        TierFaultKind.EPOCHS_IN_SEGMENT,
        "its epochs 0 from 30, 2 from 60 reach out of 30..59",
    ) in faults_of(tier, outside)


def test_a_timestamp_that_the_metadata_does_not_know_is_found() -> None:
    tier = two_segments()
    segment = replace(tier.segments[0], max_timestamp_ms=5)
    assert kinds_of(tier, segment) == [TierFaultKind.METADATA_MISMATCH]
    assert kinds_of(tier, replace(segment, max_timestamp_ms=-1)) == []


def test_aborted_transactions_are_compared_with_their_index() -> None:
    tier = PlantedTier()
    log = transaction(0, committed=True) + transaction(3, committed=False)
    aborted = [AbortedTransaction(PRODUCER_ID, 3, 5, 6)]
    assert faults_of(tier, tier.add(log, [(0, 0)], aborted=aborted)) == []
    forgotten = tier.add(log, [(0, 0)])
    assert faults_of(tier, forgotten) == [
        (TierFaultKind.BAD_INDEX, f".txnindex: lacks the abort of producer {PRODUCER_ID} at 5")
    ]


def test_an_index_where_the_metadata_says_there_is_none_is_found() -> None:
    tier = PlantedTier()
    log = transaction(0, committed=False)
    segment = tier.add(log, [(0, 0)], aborted=[AbortedTransaction(PRODUCER_ID, 0, 2, 3)])
    found = faults_of(tier, replace(segment, txn_index_empty=True))
    assert found == [(TierFaultKind.BAD_INDEX, ".txnindex: has entries, the metadata says that there are none")]


def test_batches_of_a_range_are_remembered() -> None:
    tier = two_segments()
    found = check_segment(tier.storage, tier.segments[1], remember=range(40, 50))
    headers = {header.base_offset: header for _, header in iter_headers(tier.get(tier.segments[1], None))}
    assert found.fingerprints == {
        (0, 40): (headers[40].crc, headers[40].batch_length),
        (2, 45): (headers[45].crc, headers[45].batch_length),
    }


def test_faults_of_one_kind_and_object_are_one_line() -> None:
    findings = SegmentFindings(two_segments().segments[0])
    findings.add(TierFaultKind.BAD_INDEX, ".index", "first")
    findings.add(TierFaultKind.BAD_INDEX, ".index", "second")
    findings.add(TierFaultKind.BAD_INDEX, ".timeindex", "third")
    assert [fault.detail for fault in findings.faults] == [".index: first (and 1 more)", ".timeindex: third"]
    assert all(fault.segment_id == findings.metadata.segment_id for fault in findings.faults)
