"""Index files as Kafka keeps them: what is damaged is fetched anew, what is missing is done without."""

from __future__ import annotations

import errno

import pytest

from crabka.broker.tiering.index_files import DIRECTORY, IndexFiles, decode_index, file_name
from crabka.errors import CorruptDataError
from crabka.log.offset_index import OffsetIndex
from crabka.log.txn_index import AbortedTransaction, encode_aborted
from crabka.remote.errors import RemoteBackendError
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.testing.memory_storage import InmemoryRemoteStorage
from crabka.testing.remote_samples import sample_segment
from crabka.vfs import read_file, write_atomic

SEGMENT = sample_segment(1, (100, 199), size_bytes=5000)
PATH = f"/d1/{DIRECTORY}"


def offsets() -> OffsetIndex:
    index = OffsetIndex(100)
    index.append(120, 1000)
    index.append(150, 3000)
    return index


class IndexStorage(InmemoryRemoteStorage):
    """Has indexes and nothing else, and counts who asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.content = {IndexType.OFFSET: offsets().encode()}
        self.asked: list[IndexType] = []

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        self.asked.append(index_type)
        return self.content[index_type] if index_type in self.content else super().fetch_index(metadata, index_type)


def opened(fs: MemoryFileSystem | FaultyFileSystem | None = None) -> tuple[IndexFiles, IndexStorage]:
    if fs is None:
        fs = MemoryFileSystem()
    fs.makedirs("/d1")
    storage = IndexStorage()
    files = IndexFiles(fs, "/d1", storage)
    files.open()
    return files, storage


def entries(content: object) -> list[tuple[int, int]]:
    assert isinstance(content, OffsetIndex)
    return content.entries()


def test_names_are_those_of_kafka() -> None:
    assert file_name(SEGMENT, IndexType.OFFSET) == "100_AAAAAAAAAAAAAAAAAAAAAQ.index"
    assert file_name(SEGMENT, IndexType.TRANSACTION) == "100_AAAAAAAAAAAAAAAAAAAAAQ.txnindex"


def test_an_index_is_fetched_once() -> None:
    files, storage = opened()
    for _ in range(2):
        loaded = files.load(SEGMENT, IndexType.OFFSET)
        assert entries(loaded.content) == [(120, 1000), (150, 3000)]
        assert loaded.stored_bytes == 16
    assert storage.asked == [IndexType.OFFSET]


@pytest.mark.parametrize(
    "damage",
    [b"abc", b"\0\0\0\2" * 2 + b"\0\0\0\1" * 2, b"\0\0\0\x63\0\0\x13\x89", b"\0\1\0\0\0\0\0\1"],
    ids=["odd size", "falling", "position behind the end", "offset behind the end"],
)
def test_a_damaged_file_is_fetched_anew(damage: bytes) -> None:
    fs = MemoryFileSystem()
    files, storage = opened(fs)
    files.load(SEGMENT, IndexType.OFFSET)
    path = f"{PATH}/{file_name(SEGMENT, IndexType.OFFSET)}"
    write_atomic(fs, path, damage)
    assert entries(files.load(SEGMENT, IndexType.OFFSET).content) == offsets().entries()
    assert len(storage.asked) == 2
    assert read_file(fs, path) == offsets().encode()


def test_an_index_that_is_damaged_in_the_tier_is_done_without() -> None:
    files, storage = opened()
    storage.content[IndexType.OFFSET] = b"abc"
    storage.content[IndexType.TIMESTAMP] = b"abc"
    for kind in (IndexType.OFFSET, IndexType.TIMESTAMP):
        loaded = files.load(SEGMENT, kind)
        assert (len(loaded.content), loaded.stored_bytes) == (0, 0)


def test_a_missing_index_is_done_without() -> None:
    files, storage = opened()
    del storage.content[IndexType.OFFSET]
    for kind in (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION):
        assert len(files.load(SEGMENT, kind).content) == 0


def test_nothing_stands_for_a_damaged_transaction_index() -> None:
    files, storage = opened()
    storage.content[IndexType.TRANSACTION] = b"abc"
    with pytest.raises(RemoteBackendError, match="transaction index of 3 bytes"):
        files.load(SEGMENT, IndexType.TRANSACTION)


def test_an_empty_file_of_kafka_proves_nothing_about_transactions() -> None:
    fs = MemoryFileSystem()
    files, storage = opened(fs)
    aborted = AbortedTransaction(7, 110, 130, 131)
    storage.content[IndexType.TRANSACTION] = encode_aborted([aborted])
    write_atomic(fs, f"{PATH}/{file_name(SEGMENT, IndexType.TRANSACTION)}", b"")
    assert files.load(SEGMENT, IndexType.TRANSACTION).content == [aborted]


def test_a_disk_that_takes_nothing_costs_only_downloads() -> None:
    fs = FaultyFileSystem(MemoryFileSystem(), [FaultRule(operation="pwritev", error=errno.ENOSPC)])
    files, storage = opened(fs)
    for _ in range(2):
        loaded = files.load(SEGMENT, IndexType.OFFSET)
        assert (entries(loaded.content), loaded.stored_bytes) == (offsets().entries(), 0)
    assert len(storage.asked) == 2


def test_what_an_earlier_run_left_is_found_and_other_files_go() -> None:
    fs = MemoryFileSystem()
    files, storage = opened(fs)
    files.load(SEGMENT, IndexType.OFFSET)
    for name in ("100_nonsense.index", "100_AAAAAAAAAAAAAAAAAAAAAQ.index.tmp", "x"):
        write_atomic(fs, f"{PATH}/{name}", b"x")
    again = IndexFiles(fs, "/d1", storage)
    (stored,) = again.open()
    assert (stored.key, stored.size_bytes) == ((SEGMENT.segment_id.id, IndexType.OFFSET), 16)
    assert fs.listdir(PATH) == [stored.name]
    again.remove([stored.name, "not there"])
    assert fs.listdir(PATH) == []


def test_a_directory_that_cannot_be_made_is_done_without() -> None:
    fs = FaultyFileSystem(MemoryFileSystem(), [FaultRule(operation="listdir", error=errno.EIO)])
    fs.makedirs("/d1")
    assert IndexFiles(fs, "/d1", IndexStorage()).open() == []


def test_a_transaction_index_of_another_segment_is_damage() -> None:
    data = encode_aborted([AbortedTransaction(7, 10, 250, 251)])
    with pytest.raises(CorruptDataError):
        decode_index(SEGMENT, IndexType.TRANSACTION, data)
