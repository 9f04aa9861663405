from __future__ import annotations

import errno
from pathlib import Path

import pytest

from crabka.errors import ConfigError, InvariantError
from crabka.remote.backends.local import LocalTieredStorage
from crabka.remote.errors import InvalidRangeError, RemoteBackendError, SegmentNotFoundError, TruncatedObjectError
from crabka.remote.layout import index_paths, object_path, partition_directory
from crabka.remote.segments import IndexType
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import FaultRule
from crabka.testing.memory_file_system import MemoryFile
from crabka.vfs import OsFileSystem
from tests.support.recorded.disk import copy_to_memory
from tests.support.tiers.segments import PARTITION, golden_segments, golden_tier, stored_contents, write_segment

ROOT = "/tier/kafka-tiered-storage"
DIRECTORY = f"{ROOT}/{partition_directory(PARTITION)}"


def configured(fs: MemoryFileSystem | FaultyFileSystem) -> LocalTieredStorage:
    storage = LocalTieredStorage(fs)
    storage.configure({"dir": "/tier"})
    return storage


@pytest.mark.parametrize("aborted", [True, False])
def test_a_segment_comes_back_as_it_was(aborted: bool) -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", aborted=aborted)
    storage = configured(fs)
    assert storage.copy_log_segment_data(segment.metadata, segment.data) is None
    assert stored_contents(storage, segment) == segment.contents


@pytest.mark.parametrize("node", ["single", "overlap"])
def test_a_tier_of_kafka_is_read(node: str) -> None:
    storage = LocalTieredStorage(OsFileSystem())
    storage.configure({"dir": str(golden_tier(node))})
    root = golden_tier(node) / "kafka-tiered-storage"
    for metadata in golden_segments(node):
        assert storage.fetch_log_segment(metadata, 0) == (root / object_path(metadata)).read_bytes()
        for kind in IndexType:
            if kind is IndexType.TRANSACTION and metadata.txn_index_empty:
                with pytest.raises(SegmentNotFoundError):
                    storage.fetch_index(metadata, kind)
            else:
                assert storage.fetch_index(metadata, kind) == (root / object_path(metadata, kind)).read_bytes()


def test_a_tier_that_we_write_has_the_files_that_kafka_writes(tmp_path: Path) -> None:
    fs = OsFileSystem()
    segments = [write_segment(fs, f"{tmp_path}/local", number, aborted=number == 2) for number in (1, 2)]
    storage = LocalTieredStorage(fs)
    storage.configure({"dir": f"{tmp_path}/tier"})
    for segment in segments:
        storage.copy_log_segment_data(segment.metadata, segment.data)
    expected = {}
    for segment in segments:
        expected[object_path(segment.metadata)] = segment.log
        expected |= {object_path(segment.metadata, kind): content for kind, content in segment.contents.items()}
    root = tmp_path / "tier" / "kafka-tiered-storage"
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert found == expected


def test_only_the_wanted_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=bytes(range(256)) * 100)
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    reads: list[tuple[int, int]] = []
    pread = MemoryFile.pread

    def recording_pread(file: MemoryFile, length: int, position: int) -> bytes:
        reads.append((length, position))
        return pread(file, length, position)

    monkeypatch.setattr(MemoryFile, "pread", recording_pread)
    assert storage.fetch_log_segment(segment.metadata, 300, 309) == segment.log[300:310]
    assert reads == [(10, 300)]


def test_ranges_are_cut_and_checked() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=b"0123456789")
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    assert storage.fetch_log_segment(segment.metadata, 8, 100) == b"89"
    assert storage.fetch_log_segment(segment.metadata, 3, 3) == b"3"
    assert storage.fetch_log_segment(segment.metadata, 10) == b""
    for start, end in [(11, None), (5, 4)]:
        with pytest.raises(InvalidRangeError):
            storage.fetch_log_segment(segment.metadata, start, end)
        with pytest.raises(InvalidRangeError):
            storage.stream_log_segment(segment.metadata, start, end)


def test_a_stream_gives_the_bytes_in_pieces() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=bytes(range(256)) * 10_000)
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    pieces = [bytes(piece) for piece in storage.stream_log_segment(segment.metadata, 5)]
    assert b"".join(pieces) == segment.log[5:]
    assert max(map(len, pieces)) <= 1 << 20
    assert len(pieces) > 1


def test_a_stream_that_is_given_up_closes_its_file(tmp_path: Path) -> None:
    fs = OsFileSystem()
    segment = write_segment(fs, f"{tmp_path}/local", log=b"x" * 3_000_000)
    storage = LocalTieredStorage(fs, f"{tmp_path}/tier")
    storage.copy_log_segment_data(segment.metadata, segment.data)
    untouched = storage.stream_log_segment(segment.metadata, 0)
    untouched.close()  # type: ignore[attr-defined]
    begun = storage.stream_log_segment(segment.metadata, 0)
    next(begun)
    begun.close()  # type: ignore[attr-defined]
    assert list(begun) == []


def test_what_was_never_stored_is_not_found() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    storage = configured(fs)
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_log_segment(segment.metadata, 0)
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_log_segment(segment.metadata, len(segment.log))
    with pytest.raises(SegmentNotFoundError):
        storage.stream_log_segment(segment.metadata, 0)
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_index(segment.metadata, IndexType.OFFSET)


def test_an_index_without_its_log_is_not_found() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    fs.unlink(f"{ROOT}/{object_path(segment.metadata)}")
    with pytest.raises(SegmentNotFoundError):
        storage.fetch_index(segment.metadata, IndexType.OFFSET)


def test_a_tier_whose_root_is_gone_says_so_instead_of_being_empty() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    fs.rename(ROOT, "/away")
    for action in (
        lambda: storage.fetch_log_segment(segment.metadata, 0),
        lambda: storage.fetch_index(segment.metadata, IndexType.OFFSET),
        lambda: storage.delete_log_segment_data(segment.metadata),
        lambda: list(storage.list_objects()),
    ):
        with pytest.raises(RemoteBackendError, match="No such file"):
            action()


def test_a_log_that_is_shorter_than_its_metadata_is_an_error() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local", log=b"0123456789")
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    file = fs.open(f"{ROOT}/{object_path(segment.metadata)}")
    file.truncate(5)
    file.close()
    assert storage.fetch_log_segment(segment.metadata, 0, 4) == b"01234"
    with pytest.raises(TruncatedObjectError, match="has only 5 bytes") as failure:
        storage.fetch_log_segment(segment.metadata, 0)
    assert not failure.value.retriable
    with pytest.raises(TruncatedObjectError, match="has only 5 bytes"):
        list(storage.stream_log_segment(segment.metadata, 0))


def test_deletion_takes_leftovers_and_the_empty_directory_with_it() -> None:
    fs = MemoryFileSystem()
    first, second = write_segment(fs, "/local", 1), write_segment(fs, "/local", 2)
    storage = configured(fs)
    for segment in (first, second):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    for relative in (object_path(first.metadata), index_paths(first.metadata)[0]):
        fs.open(f"{ROOT}/{relative}.tmp", create=True).close()
    storage.delete_log_segment_data(first.metadata)
    storage.delete_log_segment_data(first.metadata)
    assert stored_contents(storage, second) == second.contents
    assert len(fs.listdir(DIRECTORY)) == len(second.contents)
    storage.delete_log_segment_data(second.metadata)
    assert fs.listdir(ROOT) == []
    storage.delete_log_segment_data(second.metadata)


def test_deletion_is_durable() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    storage.delete_log_segment_data(segment.metadata)
    fs.crash()
    assert fs.listdir(ROOT) == []


def test_a_directory_that_another_node_removes_is_made_again() -> None:
    disk = MemoryFileSystem()
    segment = write_segment(disk, "/local")
    removals = 0

    def remove(_operation: str, path: str) -> None:
        nonlocal removals
        removals += 1
        disk.rmdir(DIRECTORY)

    fs = FaultyFileSystem(disk)
    storage = configured(fs)
    fs.add(FaultRule(operation="open", path=f"{DIRECTORY}/*.tmp", times=3, before=remove))
    storage.copy_log_segment_data(segment.metadata, segment.data)
    assert removals == 3
    assert stored_contents(storage, segment) == segment.contents


def test_a_directory_with_a_foreign_file_stays() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    storage = configured(fs)
    storage.copy_log_segment_data(segment.metadata, segment.data)
    fs.open(f"{DIRECTORY}/other.log.tmp", create=True).close()
    storage.delete_log_segment_data(segment.metadata)
    assert fs.listdir(DIRECTORY) == ["other.log.tmp"]


@pytest.mark.parametrize("operation", ["open", "truncate", "pwritev", "fsync", "rename", "fsync_dir"])
def test_a_failing_disk_of_the_tier_leaves_nothing(operation: str) -> None:
    disk = MemoryFileSystem()
    segment = write_segment(disk, "/local")
    fs = FaultyFileSystem(disk)
    storage = configured(fs)
    counter = fs.add(FaultRule(operation=operation, path="/tier/*", before=lambda *_: None))
    storage.copy_log_segment_data(segment.metadata, segment.data)
    steps = counter.matched_count
    fs.remove(counter)
    storage.delete_log_segment_data(segment.metadata)
    for step in range(steps):
        rule = fs.add(FaultRule(operation=operation, path="/tier/*", skip=step, times=1, error=errno.EIO))
        with pytest.raises(RemoteBackendError, match="Input/output error"):
            storage.copy_log_segment_data(segment.metadata, segment.data)
        fs.remove(rule)
        assert fs.listdir(ROOT) == []
    assert steps
    storage.copy_log_segment_data(segment.metadata, segment.data)
    assert stored_contents(storage, segment) == segment.contents


def test_a_local_file_that_cannot_be_read_is_not_the_tiers_fault_and_leaves_nothing() -> None:
    disk = MemoryFileSystem()
    segment = write_segment(disk, "/local")
    fs = FaultyFileSystem(disk, [FaultRule(operation="pread", path="/local/*.log", error=errno.EIO)])
    storage = configured(fs)
    with pytest.raises(OSError, match="Input/output error"):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    assert fs.listdir(ROOT) == []
    disk.unlink(segment.data.time_index)
    with pytest.raises(FileNotFoundError):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    assert fs.listdir(ROOT) == []


def test_a_second_copy_of_the_same_segment_replaces_the_first() -> None:
    fs = MemoryFileSystem()
    segment = write_segment(fs, "/local")
    storage = configured(fs)
    for _ in range(2):
        storage.copy_log_segment_data(segment.metadata, segment.data)
    assert stored_contents(storage, segment) == segment.contents


def test_the_listing_shows_what_is_there() -> None:
    fs = copy_to_memory(golden_tier("single"), "/tier")
    storage = configured(fs)
    everything = list(storage.list_objects())
    assert {f"{found.partition_directory}/{found.name}" for found in everything} == {
        path.relative_to(golden_tier("single") / "kafka-tiered-storage").as_posix()
        for path in golden_tier("single").rglob("*")
        if path.is_file()
    }
    assert sum(found.size_bytes for found in everything) > 0
    some = list(storage.list_objects("tiered-txn-"))
    assert some == [found for found in everything if found.partition_directory.startswith("tiered-txn-")]
    assert some


def test_the_listing_shows_strangers_only_when_all_is_wanted() -> None:
    fs = MemoryFileSystem(now_ms=lambda: 42)
    storage = configured(fs)
    fs.open(f"{ROOT}/stray", create=True).close()
    assert [tuple(found) for found in storage.list_objects()] == [("", "stray", 0, 42)]
    assert list(storage.list_objects("topic")) == []


def test_the_setting_is_checked() -> None:
    fs = MemoryFileSystem()
    storage = LocalTieredStorage(fs)
    for settings, named in [({}, "dir"), ({"dir": ""}, "dir"), ({"dir": "/tier", "dirs": "x"}, "dirs")]:
        with pytest.raises(ConfigError, match=named):
            storage.configure(settings)
    fs.open("/file", create=True).close()
    with pytest.raises(ConfigError, match=r"dir .* cannot be used"):
        storage.configure({"dir": "/file"})


def test_use_before_configuration_is_a_bug() -> None:
    segment = write_segment(MemoryFileSystem(), "/local")
    with pytest.raises(InvariantError):
        LocalTieredStorage(MemoryFileSystem()).fetch_log_segment(segment.metadata, 0)


def test_a_storage_says_where_it_is() -> None:
    assert repr(configured(MemoryFileSystem())) == f"LocalTieredStorage('{ROOT}')"
