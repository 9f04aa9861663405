from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from crabka.spark.lake.errors import CommitConflictError, LakeError
from crabka.spark.lake.formats.data_files import DataFile
from crabka.spark.lake.formats.offsets import Offsets
from crabka.spark.lake.formats.store import LakeStore
from crabka.spark.lake.formats.table import CommitInfo, Rewind, TableSpec, Vacuum
from crabka.spark.lake.syncing.commits import CommitOutcome, commit_once, evolve_to
from crabka.spark.plan.history.witnesses import Chain, Chains

OURS = DataFile("ours", 1, 1)
THEIRS = DataFile("theirs", 1, 1)


@dataclass
class ScriptedTable:
    """A table whose commits end as a script says: "ok", "conflict", "taken" by another writer, or "lost" answer."""

    script: list[str]
    offsets: dict[int, int] = field(default_factory=dict)
    live: list[DataFile] = field(default_factory=list)
    refreshed: int = 0
    stores_partition_column: bool = True
    store: LakeStore = field(default_factory=lambda: LakeStore("/nowhere", "orders"))

    @property
    def spec(self) -> TableSpec:
        return TableSpec("orders", "id", pa.schema([]))

    def refresh(self) -> None:
        self.refreshed += 1

    def committed_offsets(self) -> dict[int, int]:
        return dict(self.offsets)

    def files(self) -> list[DataFile]:
        return self.live

    def witnesses(self) -> dict[int, Chain]:
        return {}

    def commit(
        self, files: Sequence[DataFile], before: Offsets, after: Offsets, witnesses: Chains | None = None
    ) -> None:
        self._follow_script(files, after)

    def rewind(self, change: Rewind) -> None:
        self._follow_script(change.kept, change.after)

    def evolve(self, schema: pa.Schema) -> None:
        self._follow_script([], self.offsets)

    def replace(self, replaced: Sequence[DataFile], merged: Sequence[DataFile]) -> None:
        self._follow_script(merged, self.offsets)

    def vacuum(self, grace_ms: int, now_ms: int) -> Vacuum:
        return Vacuum()

    def history(self, count: int) -> list[CommitInfo]:
        return []

    def _follow_script(self, files: Sequence[DataFile], after: Offsets) -> None:
        step = self.script.pop(0)
        if step in ("ok", "lost"):
            self.live, self.offsets = [*self.live, *files], dict(after)
        if step == "taken":
            self.live, self.offsets = [*self.live, THEIRS], dict(after)
        if step != "ok":
            raise CommitConflictError("another writer")


def commit(table: ScriptedTable, *, retry: bool = True) -> CommitOutcome:
    return commit_once(table, [OURS], {}, {0: 5}, retry=retry)


def test_a_commit_leaves_a_fresh_table() -> None:
    table = ScriptedTable(["ok"])
    assert commit(table) is CommitOutcome.COMMITTED
    assert (table.offsets, table.refreshed) == ({0: 5}, 1)


def test_a_change_that_leaves_the_offsets_is_committed_over() -> None:
    table = ScriptedTable(["conflict", "conflict", "ok"])
    assert commit(table) is CommitOutcome.COMMITTED
    assert table.live == [OURS]


def test_a_change_that_leaves_the_offsets_counts_if_nothing_may_change() -> None:
    table = ScriptedTable(["conflict", "ok"])
    assert commit(table, retry=False) is CommitOutcome.SUPERSEDED
    assert table.live == []


def test_offsets_that_another_writer_committed_are_not_committed_again() -> None:
    table = ScriptedTable(["taken"])
    assert commit(table) is CommitOutcome.SUPERSEDED
    assert table.live == [THEIRS]


def test_a_table_that_moved_before_is_left_alone() -> None:
    table = ScriptedTable([], offsets={0: 5})
    assert commit(table) is CommitOutcome.SUPERSEDED


@pytest.mark.parametrize("retry", [True, False])
def test_a_commit_that_landed_without_an_answer_is_not_repeated(retry: bool) -> None:
    table = ScriptedTable(["lost"])
    assert commit(table, retry=retry) is CommitOutcome.COMMITTED
    assert table.live == [OURS]


def test_conflicts_without_end_are_an_error() -> None:
    with pytest.raises(LakeError, match="times"):
        commit(ScriptedTable(["conflict"] * 100))
    with pytest.raises(LakeError, match="times"):
        evolve_to(ScriptedTable(["conflict"] * 100), pa.schema([]))


def test_columns_are_tried_again() -> None:
    table = ScriptedTable(["conflict", "ok"])
    evolve_to(table, pa.schema([]))
    assert table.script == []
