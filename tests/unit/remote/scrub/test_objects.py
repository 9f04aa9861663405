"""What lies in a tier against its metadata."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabka.remote.errors import InvalidRangeError, RemoteBackendError, TruncatedObjectError
from crabka.remote.layout import object_path
from crabka.remote.scrub import ObjectFindings, TierFaultKind, check_objects, verify_segment
from crabka.remote.scrub.objects import expected_paths
from crabka.remote.segments import IndexType, RemoteLogSegmentState
from tests.support.tiers.planted import STORED_MS, PlantedTier, batches, two_segments, update

GRACE_MS = 1000


def check(tier: PlantedTier, *, now_ms: int = STORED_MS + GRACE_MS) -> ObjectFindings:
    return check_objects(tier.history, tier.storage.list_objects(), now_ms=now_ms, grace_ms=GRACE_MS)


def test_a_clean_tier_has_no_faults() -> None:
    tier = two_segments()
    found = check(tier)
    assert (found.faults, found.orphans) == ([], [])
    assert found.object_count == 10
    assert found.byte_count == sum(map(len, tier.storage.objects.values()))
    assert [fault for segment in tier.segments for fault in verify_segment(tier.storage, segment)] == []


@pytest.mark.parametrize("part", [None, *(each for each in IndexType if each is not IndexType.TRANSACTION)])
def test_a_missing_object_is_found(part: IndexType | None) -> None:
    tier = two_segments()
    tier.remove(tier.segments[1], part)
    (listed,) = check(tier).faults
    (asked,) = verify_segment(tier.storage, tier.segments[1])
    assert listed == asked
    assert listed.kind is TierFaultKind.MISSING_OBJECT
    assert listed.object_name == object_path(tier.segments[1], part)
    assert listed.detail == "is not there; its segment holds offsets 30..59"


def test_a_transaction_index_is_expected_only_if_there_is_one() -> None:
    segment = two_segments().segments[0]
    assert len(list(expected_paths(segment))) == 5
    assert object_path(segment, IndexType.TRANSACTION) in expected_paths(replace(segment, txn_index_empty=False))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_size_is_found(change: int) -> None:
    tier = two_segments()
    log = tier.get(tier.segments[0], None)
    tier.put(tier.segments[0], None, log[:-1] if change < 0 else log + b"x")
    (fault,) = check(tier).faults
    assert fault.kind is TierFaultKind.WRONG_SIZE
    assert fault.detail == f"has {len(log) + change} bytes, the metadata says {len(log)}"


def test_unknown_objects_are_one_orphan_after_the_grace_period() -> None:
    tier, stranger = two_segments(), PlantedTier()
    stranger.segments = list(tier.segments)
    segment = stranger.add(batches(60, 2), [(0, 60)])
    tier.storage.objects |= stranger.storage.objects
    assert check(tier, now_ms=STORED_MS + GRACE_MS - 1).faults == []
    found = check(tier)
    (fault,) = found.faults
    assert fault.kind is TierFaultKind.ORPHAN_OBJECT
    assert fault.object_name == object_path(segment).removesuffix("log") + "*"
    size = sum(map(len, stranger.storage.objects.values()))
    assert fault.detail == f"there is no metadata of its segment; 5 objects, {size} bytes"
    (orphan,) = found.orphans
    tier.storage.delete_log_segment_data(orphan.as_metadata())
    assert check(tier).faults == []
    assert len(tier.storage.objects) == 10


def test_what_is_left_of_a_deleted_segment_is_an_orphan() -> None:
    tier = two_segments()
    for state in (RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED):
        tier.history.apply(update(tier.segments[0], state))
    (fault,) = check(tier).faults
    assert fault.kind is TierFaultKind.ORPHAN_OBJECT
    assert fault.detail.startswith("its segment was deleted; 5 objects")


def test_objects_of_a_segment_that_is_being_copied_or_deleted_are_no_orphans() -> None:
    tier = two_segments()
    tier.history.apply(update(tier.segments[0], RemoteLogSegmentState.DELETE_SEGMENT_STARTED))
    assert check(tier).faults == []


def test_an_object_of_a_known_segment_in_another_place_is_an_orphan() -> None:
    tier = two_segments()
    moved = replace(tier.segments[0], start_offset=1)
    tier.put(moved, None, b"")
    found = check(tier)
    (fault,) = found.faults
    assert fault.kind is TierFaultKind.ORPHAN_OBJECT
    assert "begins at 0" in fault.detail
    tier.storage.delete_log_segment_data(found.orphans[0].as_metadata())
    assert check(tier).faults == []


@pytest.mark.parametrize("path", ["readme.txt", "orders-0/x.log", "no-id/00000000000000000000-x.log"])
def test_an_object_of_a_stranger_is_noted_and_left_alone(path: str) -> None:
    tier = two_segments()
    tier.storage.objects[path] = b"hello"
    found = check(tier)
    (fault,) = found.faults
    assert (fault.kind, fault.object_name) == (TierFaultKind.FOREIGN_OBJECT, path)
    assert found.orphans == []


def test_the_temporary_file_of_a_known_segment_is_no_fault() -> None:
    tier = two_segments()
    tier.storage.objects[object_path(tier.segments[0]) + ".tmp"] = b"half"
    assert check(tier).faults == []


def test_a_store_that_fails_is_reported_as_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = two_segments()
    for error, kind in (
        (RemoteBackendError("slow down"), TierFaultKind.UNREADABLE),
        (InvalidRangeError("no such position"), TierFaultKind.WRONG_SIZE),
        (TruncatedObjectError("it has only 5 bytes"), TierFaultKind.WRONG_SIZE),
    ):

        def fail(*_: object, error: Exception = error) -> bytes:
            raise error

        monkeypatch.setattr(tier.storage, "fetch_log_segment", fail)
        (fault,) = verify_segment(tier.storage, tier.segments[0])
        assert fault.kind is kind
