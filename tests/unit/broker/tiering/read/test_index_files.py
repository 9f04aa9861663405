"""Index files as Kafka keeps them: what is damaged is fetched anew, what is missing is done without."""

from __future__ import annotations

import errno

import pytest

from crabka.broker.tiering.read.healing.segment_rebuild import build_indexes
from crabka.broker.tiering.read.index_files import IndexFiles, LoadRules, decode_index, file_name
from crabka.config.topic import TopicConfig
from crabka.errors import CorruptDataError
from crabka.formats.file_names import REMOTE_INDEX_CACHE
from crabka.formats.offset_index import OffsetIndex
from crabka.formats.time_index import TimeIndex
from crabka.formats.transaction_index import AbortedTransaction, encode_aborted
from crabka.remote.errors import RemoteBackendError, SegmentNotFoundError
from crabka.remote.layout import object_path
from crabka.remote.segments import IndexType, RemoteLogSegmentMetadata
from crabka.testing import FaultRule, FaultyFileSystem, MemoryFileSystem
from crabka.vfs import read_file, write_atomic
from tests.support.faults.rotting import flip
from tests.support.faults.tier_rot import TIER_ROOT, flip_object
from tests.support.storage.small import LOG_DIR, NOW_MS, append, make_batch
from tests.support.tiers.index_storage import PATH, SEGMENT, IndexStorage, aborting, offsets
from tests.support.tiers.remote_reading import TierWorld, directory_tier


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


@pytest.mark.parametrize("kind", [IndexType.OFFSET, IndexType.TIMESTAMP])
def test_an_index_that_is_damaged_in_the_tier_is_built_from_the_batches(
    kind: IndexType, caplog: pytest.LogCaptureFixture
) -> None:
    config = TopicConfig(internal_segment_bytes=20_000, remote_storage_enable=True)
    with TierWorld(config, storage=directory_tier) as world:
        for number in range(30):
            append(world.log, make_batch(3, value_bytes=300, timestamp=NOW_MS + number))
        segment = world.tier()[0]
        replace_object(world, segment, kind, b"abc")
        loaded = world.indexes._files.load(segment, kind)
        built = build_indexes(world.storage, segment)
        assert isinstance(loaded.content, OffsetIndex | TimeIndex)
        assert loaded.content.encode() == built[kind is IndexType.TIMESTAMP].encode()
        assert loaded.stored_bytes == len(loaded.content.encode()) > 0
    assert f"{object_path(segment, kind)} in the remote tier is damaged, and is built from the batches" in caplog.text


def replace_object(world: TierWorld, segment: RemoteLogSegmentMetadata, kind: IndexType, data: bytes) -> None:
    write_atomic(world.fs, f"{TIER_ROOT}/{object_path(segment, kind)}", data)


def test_a_segment_that_is_gone_has_no_index_either() -> None:
    files, storage = opened()
    storage.content[IndexType.OFFSET] = b"abc"
    with pytest.raises(SegmentNotFoundError):
        files.load(SEGMENT, IndexType.OFFSET)


def test_a_missing_index_is_done_without() -> None:
    files, storage = opened()
    del storage.content[IndexType.OFFSET]
    for kind in (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION):
        assert len(files.load(SEGMENT, kind).content) == 0


def test_any_wrong_byte_of_a_transaction_index_in_a_directory_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    with TierWorld(storage=directory_tier) as world:
        before, segment, _ = aborting(world)
        files, rules = world.indexes._files, LoadRules(is_anew=True, before=before)
        right = files.load(segment, IndexType.TRANSACTION, rules).content
        assert [entry[:2] for entry in right] == [(7, 0), (8, 2)]  # type: ignore[union-attr]
        assert not caplog.records
        data = world.storage.fetch_index(segment, IndexType.TRANSACTION)
        for position in range(len(data)):
            damaged = bytearray(data)
            damaged[position] ^= 1 << position % 8
            replace_object(world, segment, IndexType.TRANSACTION, bytes(damaged))
            assert files.load(segment, IndexType.TRANSACTION, rules).content == right, position
        # The last stable offsets, of which larger ones are right as well in what Kafka writes, need no line.
        assert len(caplog.records) >= 2 * 26


def test_a_transaction_index_of_an_object_store_is_built_if_it_makes_no_sense() -> None:
    with TierWorld() as world:
        before, segment, _ = aborting(world)
        flip_object((world.storage, world.fs), segment, 0, kind=IndexType.TRANSACTION)
        files = world.indexes._files
        loaded = files.load(segment, IndexType.TRANSACTION, LoadRules(before=before))
        assert [entry[:2] for entry in loaded.content] == [(7, 0), (8, 2)]  # type: ignore[union-attr]
        with pytest.raises(RemoteBackendError, match="producers at the begin"):
            files.load(segment, IndexType.TRANSACTION, LoadRules(is_anew=True))


@pytest.mark.parametrize("kind", [IndexType.TIMESTAMP, IndexType.TRANSACTION])
def test_a_kept_file_is_used_only_with_its_checksum(kind: IndexType, caplog: pytest.LogCaptureFixture) -> None:
    with TierWorld(storage=directory_tier) as world:
        before, segment, _ = aborting(world)
        files, rules = world.indexes._files, LoadRules(before=before)
        right = files.load(segment, kind, rules)
        path = f"{LOG_DIR}/{REMOTE_INDEX_CACHE}/{file_name(segment, kind)}"
        flip(world.fs, path, right.stored_bytes - 1)
        assert encoded(files.load(segment, kind, rules).content) == encoded(right.content)
        assert f"{path} is damaged, and is fetched again" in caplog.text
        flip(world.fs, path, right.stored_bytes - 1)
        restarted = IndexFiles(world.fs, LOG_DIR, world.storage)
        assert encoded(restarted.load(segment, kind, rules).content) == encoded(right.content)


def encoded(content: object) -> object:
    return content.encode() if isinstance(content, TimeIndex) else content


def test_nothing_stands_for_a_damaged_transaction_index() -> None:
    files, storage = opened()
    storage.content[IndexType.TRANSACTION] = b"abc"
    with pytest.raises(RemoteBackendError, match="its 3 bytes are no multiple of 34"):
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
