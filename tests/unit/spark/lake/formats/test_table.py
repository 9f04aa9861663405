"""The contract of TableFormat, held by all three formats, read back without their libraries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crabka.spark.lake.errors import CommitConflictError, LakeError, SchemaConflictError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import Rewind, TableFormat
from crabka.spark.lake.formats.tables import Lake
from crabka.spark.lake.maintenance import compaction
from crabka.spark.lake.maintenance.compaction import compact_once, compact_table
from crabka.spark.lake.syncing.commits import CommitOutcome, commit_once, evolve_to
from crabka.spark.lake.values.schemas import merge_schemas
from crabka.spark.plan.history.witnesses import BatchWitness
from tests.support.spark.lake_reader import table_files, table_places, table_rows
from tests.support.spark.lake_tables import ALL_FORMATS, TOPIC_ID, lake_of, new_table, now_ms, written
from tests.support.storage.synced_files import SyncedFiles

pytestmark = pytest.mark.allow_leaks(reason="the libraries of table formats keep threads and connections")

HOUR_MS = 3_600_000


@pytest.fixture(params=ALL_FORMATS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_of(tmp_path, request.param)


def places(lake: Lake) -> list[tuple[int, int]]:
    return table_places(Path(lake.root), "orders", lake.table_format)


def again(lake: Lake) -> TableFormat:
    table = lake.open("orders")
    assert table is not None
    return table


def sync(lake: Lake, table: TableFormat, before: dict[int, int], after: dict[int, int]) -> None:
    files = [
        file
        for partition in after
        for file in written(lake, table, partition, range(before.get(partition, 0), after[partition]))
    ]
    table.commit(files, before, after)
    table.refresh()


def together(count: int, act: Callable[[int], None]) -> None:
    """Run something in threads that begin at once; raise what the first of them raised."""
    barrier, errors = threading.Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        barrier.wait()
        try:
            act(number)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_what_was_committed_is_on_the_disk(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = SyncedFiles(monkeypatch)
    directory = Path(lake.root) / "orders"
    table = new_table(lake, with_date=True)
    assert synced.missing(directory) == []
    files = written(lake, table, 0, range(30))
    assert len(files) == 2
    assert synced.missing(directory) == []  # rows before the commit that names them
    table.commit(files, {}, {0: 30})
    assert synced.missing(directory) == []
    table.refresh()
    evolve_to(table, pa.schema([("more", pa.string())]))
    assert synced.missing(directory) == []
    sync(lake, table, {0: 30}, {0: 40})
    assert compact_once(table, 1 << 30).files_removed > 0
    assert synced.missing(directory) == []


def test_a_table_that_is_not_there_is_none(lake: Lake) -> None:
    assert lake.open("orders") is None


def test_a_new_table_is_empty_and_knows_its_topic(lake: Lake) -> None:
    made = new_table(lake, with_date=True)
    for table in (made, again(lake)):
        assert table.committed_offsets() == {}
        assert table.files() == []
        assert (table.spec.topic, table.spec.topic_id) == ("orders", TOPIC_ID)
        assert table.spec.partition_column == "kafka_date"
        assert table.spec.schema.names[-1] == "value"


def test_two_who_make_the_same_table_at_once_have_one(lake: Lake) -> None:
    tables: list[TableFormat] = []
    together(3, lambda _number: tables.append(new_table(lake)))
    sync(lake, tables[0], {}, {0: 3})
    for table in tables:
        table.refresh()
        assert table.committed_offsets() == {0: 3}


@pytest.mark.parametrize("with_date", [False, True])
def test_rows_and_offsets_are_committed_together(lake: Lake, with_date: bool) -> None:
    table = new_table(lake, with_date=with_date)
    sync(lake, table, {}, {0: 30, 1: 0})
    sync(lake, table, {0: 30, 1: 0}, {0: 40, 1: 5})
    for seen in (table, again(lake)):
        assert seen.committed_offsets() == {0: 40, 1: 5}
        assert sum(file.rows for file in seen.files()) == 45
        assert {file.offsets.least for file in seen.files() if file.offsets} >= {0, 30}
    assert places(lake) == [(0, offset) for offset in range(40)] + [(1, offset) for offset in range(5)]
    if with_date:
        assert {file.partition_value for file in table.files()} == {"2026-01-01", "2026-01-02"}


def test_offsets_move_without_files(lake: Lake) -> None:
    table = new_table(lake)
    sync(lake, table, {}, {0: 3})
    table.commit([], {0: 3}, {0: 7})
    assert again(lake).committed_offsets() == {0: 7}
    assert places(lake) == [(0, 0), (0, 1), (0, 2)]


def test_a_commit_that_moves_back_or_forgets_a_partition_is_refused(lake: Lake) -> None:
    table = new_table(lake)
    sync(lake, table, {}, {0: 3, 1: 1})
    with pytest.raises(LakeError, match="back"):
        table.commit([], {0: 3, 1: 1}, {0: 2, 1: 1})
    with pytest.raises(LakeError, match="lacks"):
        table.commit([], {0: 3, 1: 1}, {0: 3})


@pytest.mark.parametrize("with_rows", [True, False])
def test_of_two_who_saw_the_same_table_one_commits(lake: Lake, with_rows: bool) -> None:
    new_table(lake)
    first, second = again(lake), again(lake)
    first.commit(written(lake, first, 0, range(5)), {}, {0: 5})
    with pytest.raises(CommitConflictError):
        second.commit(written(lake, second, 0, range(5)) if with_rows else [], {}, {0: 5})
    assert again(lake).committed_offsets() == {0: 5}
    assert places(lake) == [(0, offset) for offset in range(5)]


def test_two_empty_commits_of_the_same_offsets_do_not_both_happen(lake: Lake) -> None:
    new_table(lake)
    first, second = again(lake), again(lake)
    first.commit([], {}, {0: 9})
    with pytest.raises(CommitConflictError):
        second.commit([], {}, {0: 5})
    assert again(lake).committed_offsets() == {0: 9}


def test_a_commit_on_other_offsets_than_the_table_has_is_refused(lake: Lake) -> None:
    table = new_table(lake)
    sync(lake, table, {}, {0: 5})
    with pytest.raises(CommitConflictError):
        table.commit([], {0: 4}, {0: 6})


def test_many_at_once_commit_every_range_once(lake: Lake) -> None:
    new_table(lake)

    def follow(_number: int) -> None:
        table = again(lake)
        while (before := table.committed_offsets()).get(0, 0) < 12:
            after = {0: before.get(0, 0) + 4}
            files = written(lake, table, 0, range(before.get(0, 0), after[0]))
            commit_once(table, files, before, after)
            table.refresh()

    together(3, follow)
    assert places(lake) == [(0, offset) for offset in range(12)]


def test_a_commit_is_repeated_over_a_change_that_leaves_the_offsets(lake: Lake) -> None:
    table = new_table(lake)
    sync(lake, table, {}, {0: 3})
    sync(lake, table, {0: 3}, {0: 6})
    stale = again(lake)
    assert compact_once(table, 1 << 20).files_removed == 2
    assert commit_once(stale, written(lake, stale, 0, range(6, 8)), {0: 6}, {0: 8}) is CommitOutcome.COMMITTED
    assert places(lake) == [(0, offset) for offset in range(8)]


def test_added_columns_are_null_in_older_files(lake: Lake) -> None:
    table = new_table(lake)
    sync(lake, table, {}, {0: 2})
    wanted = merge_schemas(
        table.spec.schema, pa.schema([("amount", pa.int64()), ("who", pa.struct([("id", pa.int64())]))])
    )
    evolve_to(table, wanted)
    assert table.spec.schema.equals(wanted)
    deeper = merge_schemas(wanted, pa.schema([("who", pa.struct([("id", pa.int64()), ("name", pa.string())]))]))
    evolve_to(table, deeper)
    assert again(lake).spec.schema.equals(deeper)
    assert table.committed_offsets() == {0: 2}
    who = pa.array([{"id": 1, "name": "crab"}], deeper.field("who").type)
    table.commit(written(lake, table, 0, [2], amount=pa.array([7]), who=who), {0: 2}, {0: 3})
    rows = table_rows(Path(lake.root), "orders", lake.table_format)
    assert [row.get("amount") for row in rows] == [None, None, 7]
    assert rows[2]["who"] == {"id": 1, "name": "crab"}
    compact_once(table, 1 << 20)
    rows = table_rows(Path(lake.root), "orders", lake.table_format)
    assert [(row["kafka_offset"], row["amount"]) for row in rows] == [(0, None), (1, None), (2, 7)]
    assert rows[2]["who"] == {"id": 1, "name": "crab"}


def test_the_same_columns_added_by_two_at_once_are_there_once(lake: Lake) -> None:
    new_table(lake)
    wanted = pa.schema([("amount", pa.int64())])
    together(2, lambda _number: evolve_to(again(lake), wanted))
    assert again(lake).spec.schema.names[-2:] == ["value", "amount"]


def test_a_column_keeps_its_type(lake: Lake) -> None:
    table = new_table(lake)
    with pytest.raises(SchemaConflictError, match="value"):
        table.evolve(pa.schema([("value", pa.int64())]))


@pytest.mark.parametrize("with_date", [False, True])
def test_compaction_keeps_rows_and_offsets(lake: Lake, with_date: bool) -> None:
    table = new_table(lake, with_date=with_date)
    for start in range(0, 30, 5):
        sync(lake, table, {0: start} if start else {}, {0: start + 5})
    before = len(table.files())
    result = compact_once(table, 1 << 20)
    assert result.files_removed >= 2
    table.refresh()
    assert len(table.files()) == before - result.files_removed + result.files_added
    assert table.committed_offsets() == {0: 30}
    assert places(lake) == [(0, offset) for offset in range(30)]
    assert compact_once(table, 1 << 20).files_removed == 0
    sync(lake, table, {0: 30}, {0: 31})
    assert places(lake) == [(0, offset) for offset in range(31)]


def test_of_two_compactions_at_once_one_happens(lake: Lake) -> None:
    table = new_table(lake)
    for start in range(0, 15, 5):
        sync(lake, table, {0: start} if start else {}, {0: start + 5})
    first, second = again(lake), again(lake)
    assert compact_table(first, 1 << 20).files_removed == 3
    with pytest.raises(CommitConflictError):
        compact_table(second, 1 << 20)
    assert places(lake) == [(0, offset) for offset in range(15)]


def test_a_compaction_is_committed_over_syncs_and_new_columns(lake: Lake) -> None:
    table = new_table(lake)
    for start in (0, 5):
        sync(lake, table, {0: start} if start else {}, {0: start + 5})
    stale = again(lake)
    sync(lake, table, {0: 10}, {0: 12})
    evolve_to(table, pa.schema([("late", pa.int64())]))
    table.commit(written(lake, table, 0, [12], late=pa.array([7])), {0: 12}, {0: 13})
    assert compact_table(stale, 1 << 20).files_removed == 2
    found = again(lake)
    assert found.committed_offsets() == {0: 13}
    assert found.spec.schema.names[-1] == "late"
    assert len(found.files()) == 3
    assert places(lake) == [(0, offset) for offset in range(13)]


def test_a_compaction_of_files_that_another_writer_replaced_does_not_happen(lake: Lake) -> None:
    table = new_table(lake)
    for start in (0, 5):
        sync(lake, table, {0: start} if start else {}, {0: start + 5})
    stale = again(lake)
    compact_once(table, 1 << 20)
    table.refresh()
    sync(lake, table, {0: 10}, {0: 12})
    with pytest.raises(CommitConflictError):
        compact_table(stale, 1 << 20)
    assert places(lake) == [(0, offset) for offset in range(12)]


def test_compactions_and_syncs_at_once_lose_and_double_nothing(lake: Lake) -> None:
    new_table(lake)
    done = threading.Event()

    def act(number: int) -> None:
        table = again(lake)
        if number == 0:
            try:
                for start in range(0, 24, 3):
                    before = {0: start} if start else {}
                    outcome = commit_once(
                        table, written(lake, table, 0, range(start, start + 3)), before, {0: start + 3}
                    )
                    assert outcome is CommitOutcome.COMMITTED
            finally:
                done.set()
        else:
            while not done.is_set():
                table.refresh()
                try:
                    compact_table(table, 1 << 20)
                except CommitConflictError:
                    continue

    together(2, act)
    assert places(lake) == [(0, offset) for offset in range(24)]
    assert again(lake).committed_offsets() == {0: 24}


def test_vacuum_keeps_what_is_live_and_what_is_young(lake: Lake) -> None:
    table = new_table(lake, with_date=True)
    for start in (0, 5):
        sync(lake, table, {0: start} if start else {}, {0: start + 5})
    old = table_files(Path(lake.root), "orders", lake.table_format)
    orphans = written(lake, table, 0, range(10, 12))
    compact_once(table, 1 << 20)
    # Readers that began before the compaction still find their files.
    assert table.vacuum(HOUR_MS, now_ms()).removed == ()
    assert all(path.exists() for path in old)
    removed = table.vacuum(0, now_ms() + 2 * HOUR_MS).removed
    assert {orphans[0].path} | {str(path.relative_to(Path(lake.root) / "orders")) for path in old} <= set(removed)
    assert not any(path.exists() for path in old)
    assert places(lake) == [(0, offset) for offset in range(10)]
    table.refresh()
    assert table.committed_offsets() == {0: 10}
    sync(lake, table, {0: 10}, {0: 12})
    assert places(lake) == [(0, offset) for offset in range(12)]
    assert again(lake).vacuum(0, now_ms() + HOUR_MS).removed is not None
    assert places(lake) == [(0, offset) for offset in range(12)]


@pytest.mark.parametrize("act", ["commit", "compact"])
def test_files_that_a_vacuum_removed_before_they_were_committed_are_not_committed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    table = new_table(lake)
    for start in (0, 5):
        sync(lake, table, {0: start} if start else {}, {0: start + 5})
    merge = compaction.merge_files

    def merge_for_nothing(store: LakeStore, *given: Any) -> DataFile:
        merged = merge(store, *given)
        again(lake).vacuum(0, now_ms() + HOUR_MS)
        return merged

    monkeypatch.setattr(compaction, "merge_files", merge_for_nothing)
    files = written(lake, table, 0, range(10, 12))
    again(lake).vacuum(0, now_ms() + HOUR_MS)
    table.refresh()
    with pytest.raises(LakeError):
        compact_table(table, 1 << 20) if act == "compact" else table.commit(files, {0: 10}, {0: 12})
    assert again(lake).committed_offsets() == {0: 10}
    assert places(lake) == [(0, offset) for offset in range(10)]


def test_history_has_the_last_commits(lake: Lake) -> None:
    table = new_table(lake)
    for start in (0, 5):
        sync(lake, table, {0: start} if start else {}, {0: start + 5})
    history = table.history(2)
    assert len(history) == 2
    assert history[0].timestamp_ms >= history[1].timestamp_ms > 0


def test_files_hold_all_columns_but_those_that_the_format_keeps_itself(lake: Lake) -> None:
    table = new_table(lake, with_date=True)
    sync(lake, table, {}, {0: 2})
    [path] = table_files(Path(lake.root), "orders", lake.table_format)
    assert ("kafka_date" in pq.read_schema(path).names) is table.stores_partition_column


WITNESSES = {0: (BatchWitness(25, 29, 1, 4_000_000_000, 1_700_000_000_000, 5),), 1: ()}


def test_witnesses_are_committed_with_the_rows_and_stay(lake: Lake) -> None:
    table = new_table(lake)
    assert table.witnesses() == {}
    files = written(lake, table, 0, range(30))
    table.commit(files, {}, {0: 30, 1: 0}, WITNESSES)
    assert again(lake).witnesses() == WITNESSES
    table.refresh()
    evolve_to(table, pa.schema([("more", pa.string())]))
    sync(lake, table, {0: 30, 1: 0}, {0: 40, 1: 0})
    assert compact_once(table, 1 << 30).files_removed > 0
    assert again(lake).witnesses() == WITNESSES


@pytest.mark.parametrize("with_date", [False, True])
def test_a_rewind_is_one_commit(lake: Lake, with_date: bool) -> None:
    table = new_table(lake, with_date=with_date)
    sync(lake, table, {}, {0: 30, 1: 5})
    sync(lake, table, {0: 30, 1: 5}, {0: 40, 1: 5})
    removed = [file for file in table.files() if file.offsets and file.offsets.least >= 24]
    kept = [] if with_date else written(lake, table, 0, range(30, 32))
    stale = again(lake)
    change = Rewind(removed=removed, kept=kept, before={0: 40, 1: 5}, after={0: 24, 1: 5}, witnesses=WITNESSES)
    versions = len(table.history(100))
    table.rewind(change)
    seen = again(lake)
    assert (seen.committed_offsets(), seen.witnesses()) == ({0: 24, 1: 5}, WITNESSES)
    assert len(seen.history(100)) == versions + 1
    first = 24 if with_date else 30
    rest = [] if with_date else [(0, 30), (0, 31)]
    assert places(lake) == [*((0, offset) for offset in range(first)), *rest, *((1, offset) for offset in range(5))]
    # A writer that saw the table before does not commit over it.
    with pytest.raises(CommitConflictError):
        stale.commit([], {0: 40, 1: 5}, {0: 41, 1: 5})
    stale = again(lake)
    sync(lake, seen, {0: 24, 1: 5}, {0: 24, 1: 6})
    with pytest.raises(CommitConflictError):
        stale.rewind(Rewind(removed=[], kept=[], before={0: 24, 1: 5}, after={0: 3, 1: 5}, witnesses={}))


def test_a_rewind_that_moves_forward_is_refused(lake: Lake) -> None:
    table = new_table(lake)
    sync(lake, table, {}, {0: 3})
    for after in ({0: 4}, {}, {0: 3, 1: 0}):
        with pytest.raises(LakeError, match="rewind"):
            table.rewind(Rewind(removed=[], kept=[], before={0: 3}, after=after, witnesses={}))
