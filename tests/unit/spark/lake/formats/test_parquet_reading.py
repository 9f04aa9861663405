"""Files of tables on a disk and in a store elsewhere, of which only what is asked for is read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.spark.lake.formats.data_files import ColumnRange
from crabka.spark.lake.formats.parquet_files import ParquetFileWriter
from crabka.spark.lake.formats.parquet_reading import StoredFile, read_batches
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.values.schemas import OFFSET, PARTITION, conform
from tests.support.spark.lake_tables import raw_spec, rows_of
from tests.support.tiers.object_stores import memory_bucket

GROUPS = ((0, range(5_000)), (1, range(100, 5_100)), (0, range(5_000, 10_000)))
NAME = "f.parquet"


@pytest.fixture
def disk(tmp_path: Path) -> LakeStore:
    """A file of three row groups."""
    store, schema = LakeStore(str(tmp_path), "t"), raw_spec().schema
    writer = ParquetFileWriter(store, NAME, schema)
    for partition, offsets in GROUPS:
        writer.write(conform(rows_of(partition, offsets), schema))
    writer.close()
    return store


class Requests:
    """What was asked of a bucket, in bytes."""

    def __init__(self, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        get_range = bucket.get_range

        def counted(key: str, span: range) -> memoryview:
            self.sizes.append(len(span))
            return get_range(key, span)

        monkeypatch.setattr(bucket, "get_range", counted)


@pytest.fixture
def elsewhere(disk: LakeStore) -> LakeStore:
    """The same file in an object store."""
    store = LakeStore("s3://bucket/lake", "t")
    _, bucket = memory_bucket()
    bucket.put(NAME, whole_file(disk))
    store.__dict__["bucket"] = bucket
    return store


def whole_file(disk: LakeStore) -> bytes:
    return Path(disk.local_directory or "", NAME).read_bytes()


@pytest.fixture(params=["disk", "elsewhere"])
def store(request: pytest.FixtureRequest) -> Iterator[LakeStore]:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def offsets_of(store: LakeStore, within: dict[str, ColumnRange] | None = None) -> list[int]:
    return [
        offset
        for batch in read_batches(store, NAME, [OFFSET], within=within)
        for offset in batch.column(OFFSET).to_pylist()
    ]


def test_columns_are_read_alone(store: LakeStore) -> None:
    assert offsets_of(store) == [offset for _, offsets in GROUPS for offset in offsets]
    (first, *_) = read_batches(store, NAME, [OFFSET])
    assert first.schema.names == [OFFSET]


def test_all_columns_are_read(store: LakeStore, disk: LakeStore) -> None:
    found = [row for batch in read_batches(store, NAME) for row in batch.to_pylist()]
    assert found == pq.read_table(io.BytesIO(whole_file(disk))).to_pylist()


def test_row_groups_without_a_wanted_row_are_passed_over(store: LakeStore) -> None:
    assert offsets_of(store, {PARTITION: ColumnRange(1, 1)}) == list(range(100, 5_100))
    assert offsets_of(store, {PARTITION: ColumnRange(0, 0), OFFSET: ColumnRange(7_000, 8_000)}) == [
        *range(5_000, 10_000)
    ]
    assert offsets_of(store, {OFFSET: ColumnRange(10_000, 20_000)}) == []
    assert offsets_of(store, {OFFSET: ColumnRange(9_999, 20_000)}) == list(range(5_000, 10_000))
    assert len(offsets_of(store, {"no_such_column": ColumnRange(1, 1)})) == 15_000


def test_a_store_is_asked_for_what_is_wanted(
    elsewhere: LakeStore, disk: LakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(whole_file(disk))
    requests = Requests(elsewhere.bucket, monkeypatch)
    assert len(offsets_of(elsewhere)) == 15_000
    _footer, *columns = requests.sizes
    assert len(columns) == 3
    assert sum(columns) < size / 10
    requests.sizes.clear()
    rows = sum(batch.num_rows for batch in read_batches(elsewhere, NAME, within={PARTITION: ColumnRange(1, 1)}))
    assert rows == 5_000
    _footer, *columns = requests.sizes
    assert len(columns) == 1  # all columns of a group lie together
    assert sum(columns) < size / 2


def test_a_file_that_is_gone_is_reported_as_the_store_does(elsewhere: LakeStore) -> None:
    with pytest.raises(ObjectMissingError, match=r"gone\.parquet"):
        next(read_batches(elsewhere, "gone.parquet"))
    batches = read_batches(elsewhere, NAME)
    next(batches)
    elsewhere.bucket.delete([NAME])
    with pytest.raises(ObjectMissingError, match=r"f\.parquet"):
        list(batches)


def test_an_object_is_read_like_a_file() -> None:
    _, bucket = memory_bucket()
    bucket.put("object", b"0123456789")
    file = StoredFile(bucket, "object")
    assert (file.readable(), file.seekable(), file.tell()) == (True, True, 0)
    assert (file.read(3), file.tell(), file.read(0)) == (b"012", 3, b"")
    assert (file.seek(2, io.SEEK_CUR), file.read(2)) == (5, b"56")
    assert (file.seek(-2, io.SEEK_END), file.read(100), file.tell()) == (8, b"89", 10)
    assert (file.seek(20), file.read(1), file.read()) == (20, b"", b"")
    assert (file.seek(7), file.read()) == (7, b"789")
    file.close()
