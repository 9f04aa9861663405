from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore

from crabka.remote.backends.bucket import PIECE_BYTES, Bucket
from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.remote.backends.transfer import UploadLimits
from crabka.remote.errors import RemoteBackendError
from crabka.testing import FaultyFileSystem, MemoryFileSystem
from crabka.testing.faulty_file_system import FaultRule
from crabka.testing.memory_file_system import MemoryFile
from tests.support.nodes.process import wait_until
from tests.support.tiers.object_stores import disk_bucket, memory_bucket


def keys(store: MemoryStore) -> list[str]:
    return sorted(found["path"] for page in obstore.list(store) for found in page)


def file_of(size: int) -> tuple[MemoryFileSystem, bytes]:
    fs = MemoryFileSystem()
    content = (bytes(range(256)) * (size // 256 + 1))[:size]
    file = fs.open("/file", create=True)
    file.pwritev([content], 0)
    file.close()
    return fs, content


def test_objects_live_below_the_prefix() -> None:
    store, bucket = memory_bucket("/deep/down/")
    bucket.put("dir/a", b"content")
    assert keys(store) == ["deep/down/dir/a"]
    assert bucket.get("dir/a") == b"content"
    assert bucket.size("dir/a") == 7
    assert [(found.key, found.size_bytes) for found in bucket.list()] == [("dir/a", 7)]
    assert list(bucket.directories()) == ["dir"]


def test_an_object_is_created_once() -> None:
    _, bucket = memory_bucket("deep")
    assert bucket.put_new("a", b"first")
    assert not bucket.put_new("a", b"second")
    assert bucket.get("a") == b"first"


def test_of_many_that_create_the_same_object_on_a_disk_one_wins(tmp_path: Path) -> None:
    bucket = disk_bucket(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: bucket.put_new("a", b"%d" % number), range(32)))
    assert sum(won) == 1
    assert bucket.get("a") == b"%d" % won.index(True)


def test_a_range_is_a_view_of_what_came() -> None:
    _, bucket = memory_bucket()
    bucket.put("a", b"0123456789")
    data = bucket.get_range("a", range(2, 5))
    assert isinstance(data, memoryview)
    assert bytes(data) == b"234"


def test_a_range_that_the_object_does_not_have_is_an_error() -> None:
    _, bucket = memory_bucket()
    bucket.put("a", b"0123456789")
    for span in (range(8, 12), range(10, 12), range(20, 30)):
        with pytest.raises(RemoteBackendError):
            bucket.get_range("a", span)


@pytest.mark.parametrize("size", [0, 1, (5 << 20) - 1, 5 << 20, (5 << 20) + 1, (10 << 20), (23 << 20) + 7])
def test_files_of_any_size_arrive_whole(size: int, tmp_path: Path) -> None:
    bucket = disk_bucket(tmp_path)
    fs, content = file_of(size)
    assert bucket.put_file("a", fs.open("/file")) == size
    assert bucket.size("a") == size
    assert bucket.get("a") == content


@pytest.mark.parametrize(("size", "good_reads"), [(30 << 20, n) for n in (0, 1, 7, 29)] + [(100, 0)])
def test_a_file_that_cannot_be_read_to_its_end_leaves_nothing(size: int, good_reads: int, tmp_path: Path) -> None:
    bucket = disk_bucket(tmp_path)
    disk, _ = file_of(size)
    fs = FaultyFileSystem(disk, [FaultRule(operation="pread", skip=good_reads, error=errno.EIO)])
    with pytest.raises(OSError, match="Input/output error"):
        bucket.put_file("a", fs.open("/file"))
    assert list(tmp_path.iterdir()) == []


def test_a_large_file_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bucket = disk_bucket(tmp_path)
    fs, _ = file_of(11 << 20)
    lengths: list[int] = []
    pread = MemoryFile.pread

    def recording_pread(file: MemoryFile, length: int, position: int) -> bytes:
        lengths.append(length)
        return pread(file, length, position)

    monkeypatch.setattr(MemoryFile, "pread", recording_pread)
    bucket.put_file("a", fs.open("/file"))
    assert lengths == [PIECE_BYTES] * 11


@pytest.mark.parametrize("size", [600, 12 << 20])
def test_files_that_are_stored_at_once_share_the_memory(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = UploadLimits(threshold_bytes=5 << 20, part_bytes=5 << 20, memory_bytes=1_000)
    bucket = Bucket(LocalStore(tmp_path, automatic_cleanup=True), location="disk", limits=limits)
    fs, content = file_of(size)
    keys = ["a", "b", "c", "d"]
    lock = threading.Lock()
    uploading: list[str] = []
    name = "put" if size < limits.threshold_bytes else "_put_parts"
    store = getattr(Bucket, name)

    def alone(self: Bucket, key: str, *rest: Any) -> None:
        with lock:
            uploading.append(key)
            # All others have their turn when this one is done.
            wait_until(lambda: self._memory.waiting_count == len(keys) - len(uploading), "the others to wait")
            store(self, key, *rest)

    monkeypatch.setattr(Bucket, name, alone)
    with ThreadPoolExecutor(len(keys)) as pool:
        done = [pool.submit(bucket.put_file, key, fs.open("/file")) for key in keys]
        assert [each.result(60) for each in done] == [size] * len(keys)
    assert sorted(uploading) == keys
    monkeypatch.undo()
    assert {bucket.get(key) for key in keys} == {content}


def test_what_is_missing_is_missing() -> None:
    _, bucket = memory_bucket()
    with pytest.raises(ObjectMissingError):
        bucket.get("a")
    with pytest.raises(ObjectMissingError):
        bucket.get_range("a", range(5))
    with pytest.raises(ObjectMissingError):
        bucket.size("a")


def test_deletion_takes_what_is_there_and_passes_over_what_is_not() -> None:
    store, bucket = memory_bucket()
    for key in ("a", "c", "d"):
        bucket.put(key, b"x")
    bucket.delete(["absent", "a", "b", "c"])
    assert keys(store) == ["d"]
    bucket.delete(["absent"])


def test_only_one_directory_is_listed_if_asked() -> None:
    _, bucket = memory_bucket("p")
    for key in ("a/1", "a/2", "ab/3", "4"):
        bucket.put(key, b"x")
    assert {found.key for found in bucket.list("a")} == {"a/1", "a/2"}
    assert {found.key for found in bucket.list()} == {"a/1", "a/2", "ab/3", "4"}
    assert sorted(bucket.directories()) == ["a", "ab"]


def test_errors_of_the_store_come_without_its_own_words_behind_them() -> None:
    bucket = Bucket(MemoryStore(), location="memory", secrets=["hush-hush", None])
    with pytest.raises(RemoteBackendError) as failure:
        bucket.put("a//hush-hush//../b", b"x")
    assert "hush" not in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


def test_a_bucket_shows_its_place_only() -> None:
    assert repr(Bucket(MemoryStore(), location="memory://x", secrets=["hush-hush"])) == "Bucket('memory://x')"
