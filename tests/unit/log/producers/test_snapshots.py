from __future__ import annotations

from crabka.log.producers.producer_state import BatchMark, ProducerEntry
from crabka.log.producers.snapshots import ProducerSnapshots, decode_snapshot, encode_snapshot
from crabka.testing import MemoryFileSystem
from tests.support.recorded.files import GOLDEN

GOLDEN_SNAPSHOT = GOLDEN / "single/d2/txn-0/00000000000000000098.snapshot"


def entries() -> list[ProducerEntry]:
    open_transaction, idle = ProducerEntry(1004, 2), ProducerEntry(32, 6)
    open_transaction.batches.append(BatchMark(3, 96, 3, 1_700_000_900_003))
    open_transaction.last_timestamp = 1_700_000_900_003
    open_transaction.txn_first_offset = 93
    idle.coordinator_epoch = 1
    return [open_transaction, idle]


def snapshots(*offsets: int) -> tuple[MemoryFileSystem, ProducerSnapshots]:
    fs = MemoryFileSystem()
    fs.makedirs("/log")
    store = ProducerSnapshots(fs, "/log", [])
    for offset in offsets:
        store.write(offset, entries())
    return fs, store


def test_kafkas_snapshot_holds_what_its_dump_shows() -> None:
    found = {entry.producer_id: entry for entry in decode_snapshot(GOLDEN_SNAPSHOT.read_bytes())}
    assert found[1004].current_txn_first_offset == 93
    assert found[1004].batches == [BatchMark(3, 96, 3, 1_700_000_900_003)]
    assert found[1004].batches[0].first_sequence == 0
    assert (found[32].producer_epoch, found[32].coordinator_epoch, found[32].batches) == (6, 0, [])


def test_snapshots_round_trip() -> None:
    data = encode_snapshot(entries())
    assert encode_snapshot(decode_snapshot(data)) == data


def test_the_newest_readable_snapshot_in_range_is_loaded() -> None:
    fs, store = snapshots(10, 20, 30)
    fs.open(store.path(20)).truncate(9)
    assert store.read_latest(0, 29) is not None
    assert store.offsets == [10, 30]
    assert store.latest == 30
    assert store.read_latest(11, 29) is None
    assert fs.listdir("/log") == [f"{10:020d}.snapshot", f"{30:020d}.snapshot"]


def test_snapshots_outside_a_range_go() -> None:
    _, store = snapshots(10, 20, 30)
    store.remove_outside(15, 25)
    assert store.offsets == [20]


def test_snapshots_without_segment_go_except_one_after_all_segments() -> None:
    _, store = snapshots(10, 15, 20, 25)
    store.remove_strays([0, 10, 20])
    assert store.offsets == [10, 20, 25]
    _, store = snapshots(10, 15)
    store.remove_strays([0, 10, 20])
    assert store.offsets == [10]


def test_existing_files_are_found_by_name() -> None:
    names = ["00000000000000000007.snapshot", "00000000000000000007.log", "x.snapshot"]
    assert ProducerSnapshots(MemoryFileSystem(), "/log", names).offsets == [7]


def test_snapshots_follow_a_rename() -> None:
    fs, store = snapshots(10)
    fs.rename("/log", "/moved")
    store.move("/moved")
    assert store.read_latest(0, 10) is not None


def test_a_snapshot_from_elsewhere_is_installed_durably() -> None:
    fs = MemoryFileSystem()
    fs.makedirs("/log")
    fs.fsync_dir("/")
    snapshots = ProducerSnapshots(fs, "/log", [])
    data = encode_snapshot([ProducerEntry(7, 2)])
    snapshots.install(50, data)
    fs.crash()
    assert snapshots.offsets == [50]
    found = ProducerSnapshots(fs, "/log", fs.listdir("/log")).read_latest(0, 99)
    assert found is not None
    assert (found[0], [entry.producer_id for entry in found[1]]) == (50, [7])
