"""Whole partitions: clean ones have no fault, those of Apache Kafka among them."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from crabka.formats.transaction_index import AbortedTransaction
from crabka.records.header import iter_headers
from crabka.remote.backends.local import ROOT_NAME, LocalTieredStorage
from crabka.remote.scrub import (
    Severity,
    TierFault,
    TierFaultKind,
    TierHistory,
    check_contents,
    check_objects,
    check_states,
    scrub_partition,
    still_true,
    verify_partition,
)
from crabka.remote.scrub.scrub import fetch_lineage
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from crabka.vfs import OsFileSystem
from tests.support.recorded.files import GOLDEN
from tests.support.recorded.tier import golden_history
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import (
    ORDERS,
    PRODUCER_ID,
    STORED_MS,
    PlantedTier,
    batches,
    transaction,
    two_segments,
    update,
)


def kinds(faults: list[TierFault]) -> list[TierFaultKind]:
    return [fault.kind for fault in faults]


def by_partition(history: TierHistory) -> dict[TopicIdPartition, list[RemoteLogSegmentMetadata]]:
    found = defaultdict(list)
    for segment in history.finished():
        found[segment.topic_id_partition].append(segment)
    return found


@pytest.mark.parametrize(("name", "segment_count"), [("single", 23), ("overlap", 4)])
def test_a_tier_written_by_kafka_is_clean(name: str, segment_count: int) -> None:
    history = golden_history(name)
    storage = LocalTieredStorage(OsFileSystem(), str(GOLDEN / name / "tier" / ROOT_NAME))
    now_ms = 4_000_000_000_000
    found = check_objects(history, storage.list_objects(), now_ms=now_ms, grace_ms=0)
    faults = found.faults + check_states(history, now_ms=now_ms, grace_ms=0)
    read_bytes: list[int] = []
    for partition, segments in by_partition(history).items():
        faults += scrub_partition(storage, partition, segments, on_bytes=read_bytes.append)
        assert verify_partition(storage, partition, segments) == []
    assert faults == []
    assert len(list(history.finished())) == segment_count
    assert sum(read_bytes) == sum(segment.segment_size_bytes for segment in history.finished())


def test_a_gap_between_segments_is_found() -> None:
    tier = PlantedTier()
    tier.add(batches(0, 2), [(0, 0)])
    tier.add(batches(20, 2), [(0, 0)])
    assert kinds(scrub_partition(tier.storage, ORDERS, tier.segments)) == [TierFaultKind.GAP]
    assert kinds(verify_partition(tier.storage, ORDERS, tier.segments)) == [TierFaultKind.GAP]


def test_two_copies_of_the_same_records_have_to_agree() -> None:
    tier = PlantedTier()
    tier.add(batches(0, 4), [(0, 0)])
    tier.add(batches(10, 4), [(0, 0)])
    assert scrub_partition(tier.storage, ORDERS, tier.segments) == []
    tier.add(batches(10, 4, value=b"other"), [(0, 0)])
    (fault,) = scrub_partition(tier.storage, ORDERS, tier.segments)
    assert fault.kind is TierFaultKind.COPIES_DIFFER
    assert "offset 10 of epoch 0" in fault.detail


def test_the_same_offsets_of_different_epochs_need_not_agree() -> None:
    tier = PlantedTier()
    tier.add(batches(0, 4), [(0, 0)])
    tier.add(batches(0, 2) + batches(10, 4, epoch=1, value=b"other"), [(0, 0), (1, 10)])
    assert scrub_partition(tier.storage, ORDERS, tier.segments) == []


def test_without_the_epochs_of_the_newest_segment_gaps_are_still_found() -> None:
    tier = two_segments()
    tier.remove(tier.segments[1], IndexType.LEADER_EPOCH)
    assert fetch_lineage(tier.storage, tier.segments) is None
    assert kinds(scrub_partition(tier.storage, ORDERS, tier.segments)) == [TierFaultKind.MISSING_OBJECT]
    tier.put(tier.segments[1], IndexType.LEADER_EPOCH, b"garbage")
    assert fetch_lineage(tier.storage, tier.segments) is None
    assert fetch_lineage(tier.storage, []) is None


def on_disk(directory: Path, tier: PlantedTier) -> LocalTieredStorage:
    write_tier(directory, tier)
    return LocalTieredStorage(OsFileSystem(), str(directory / ROOT_NAME))


def test_of_a_lost_log_on_a_disk_only_the_log_is_reported(tmp_path: Path) -> None:
    tier = two_segments()
    tier.remove(tier.segments[0], None)
    (fault,) = scrub_partition(on_disk(tmp_path, tier), ORDERS, tier.segments)
    assert (fault.kind, fault.segment_id) == (TierFaultKind.MISSING_OBJECT, tier.segments[0].segment_id)
    assert fault.detail == ".log: is not there"


def test_a_log_on_a_disk_that_was_cut_has_the_wrong_size(tmp_path: Path) -> None:
    tier = two_segments()
    tier.put(tier.segments[1], None, tier.get(tier.segments[1], None)[:-50])
    assert kinds(scrub_partition(on_disk(tmp_path, tier), ORDERS, tier.segments)) == [TierFaultKind.WRONG_SIZE]


def spanning_abort(*entries: AbortedTransaction) -> PlantedTier:
    """An abort whose records lie in the segment before its marker, and one that lies in one segment."""
    spanning = transaction(10, committed=False)
    cut = [position for position, _ in iter_headers(spanning)][1]
    tier = PlantedTier()
    tier.add(batches(0, 2) + spanning[:cut], [(0, 0)])
    tier.add(spanning[cut:] + transaction(13, committed=False), [(0, 0)], aborted=entries)
    return tier


def test_the_abort_of_a_transaction_of_the_segment_before_is_missed() -> None:
    first, second = AbortedTransaction(PRODUCER_ID, 10, 12, 13), AbortedTransaction(PRODUCER_ID, 13, 15, 16)
    tier = spanning_abort(first, second)
    assert scrub_partition(tier.storage, ORDERS, tier.segments) == []
    tier = spanning_abort(second)
    (fault,) = scrub_partition(tier.storage, ORDERS, tier.segments)
    assert fault.segment_id == tier.segments[1].segment_id
    assert fault.detail == f".txnindex: lacks the abort of producer {PRODUCER_ID} at 12"


def test_a_segment_before_of_another_history_says_nothing_of_transactions() -> None:
    entry = AbortedTransaction(PRODUCER_ID, 13, 15, 16)
    tier = spanning_abort(entry)
    # The leader of epoch 1 has never had the records before 12 of epoch 0.
    tier.put(tier.segments[1], IndexType.LEADER_EPOCH, b"0\n1\n0 12\n")
    assert kinds(scrub_partition(tier.storage, ORDERS, tier.segments)) == []


def test_a_snapshot_that_cannot_be_read_is_reported_once() -> None:
    tier = spanning_abort(AbortedTransaction(PRODUCER_ID, 10, 12, 13), AbortedTransaction(PRODUCER_ID, 13, 15, 16))
    tier.put(tier.segments[0], IndexType.PRODUCER_SNAPSHOT, b"garbage")
    (fault,) = scrub_partition(tier.storage, ORDERS, tier.segments)
    assert fault.segment_id == tier.segments[0].segment_id


def three_epochs() -> PlantedTier:
    tier = PlantedTier()
    epochs = [(0, 0), (1, 10), (4, 20)]
    for count in (1, 2, 3):
        tier.add(batches(10 * (count - 1), 2, epoch=epochs[count - 1][0]), epochs[:count])
    return tier


def test_older_epochs_of_a_checkpoint_are_compared_with_those_of_other_segments() -> None:
    tier = three_epochs()
    assert scrub_partition(tier.storage, ORDERS, tier.segments) == []
    tier.put(tier.segments[1], IndexType.LEADER_EPOCH, b"0\n2\n0 9\n1 10\n")
    assert scrub_partition(tier.storage, ORDERS, tier.segments) == [], "the log began at 9"
    tier = three_epochs()
    tier.add(batches(30, 2, epoch=4), [(0, 0), (1, 10), (4, 20)])
    tier.put(tier.segments[2], IndexType.LEADER_EPOCH, b"0\n3\n0 0\n1 11\n4 20\n")
    (fault,) = check_contents(tier.storage, tier.segments)
    assert (fault.kind, fault.segment_id) == (TierFaultKind.BAD_INDEX, tier.segments[2].segment_id)
    assert fault.detail.startswith(".leader_epoch_checkpoint: it says 0 from 0, 1 from 11, 4 from 20, that of")


def test_the_newest_checkpoint_is_reported_if_all_others_contradict_it() -> None:
    tier = three_epochs()
    tier.add(batches(30, 2, epoch=4), [(0, 0), (1, 10), (4, 20)])
    tier.put(tier.segments[3], IndexType.LEADER_EPOCH, b"0\n3\n2 0\n3 10\n4 20\n")
    faults = check_contents(tier.storage, tier.segments[2:])
    assert [fault.segment_id for fault in faults] == [tier.segments[2].segment_id], "two cannot tell who is right"
    tier.add(batches(20, 2, epoch=4), [(0, 0), (1, 10), (4, 20)])
    faults = check_contents(tier.storage, tier.segments[2:])
    assert [fault.segment_id for fault in faults] == [tier.segments[3].segment_id]


def test_segments_can_be_read_in_parallel() -> None:
    tier = two_segments()
    tier.flip(tier.segments[1], None, 800)
    with ThreadPoolExecutor(2) as pool:
        faults = scrub_partition(tier.storage, ORDERS, tier.segments, each=pool.map)
    assert TierFaultKind.CORRUPT_BATCH in kinds(faults)


def test_faults_of_segments_that_changed_meanwhile_are_dropped() -> None:
    tier = two_segments()
    before = dict(tier.history.segments)
    tier.storage.objects.clear()
    faults = check_objects(tier.history, [], now_ms=STORED_MS, grace_ms=0).faults
    faults.append(TierFault(kind=TierFaultKind.GAP, detail="stays", partition=ORDERS))
    assert len(faults) == 11
    tier.history.apply(update(tier.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_STARTED))
    left = still_true(faults, before, tier.history.segments)
    assert {fault.segment_id for fault in left} == {tier.segments[1].segment_id, None}
    assert len(left) == 6


def test_notes_alone_leave_a_tier_clean() -> None:
    tier = PlantedTier()
    tier.add(batches(0, 4), [(0, 0)])
    lost = tier.add(batches(20, 2, epoch=1), [(0, 0), (1, 20)])
    tier.add(batches(20, 4, epoch=2), [(0, 0), (2, 20)])
    found = scrub_partition(tier.storage, ORDERS, tier.segments)
    assert [(fault.kind, fault.segment_id) for fault in found] == [(TierFaultKind.OUTSIDE_LINEAGE, lost.segment_id)]
    assert found[0].severity is Severity.NOTE
    assert scrub_partition(tier.storage, ORDERS, [replace(tier.segments[0])]) == []
