"""Tables of the lake. Their state is tested with `crabka lake status`."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli.doctor.finding import NotApplicableError
from crabka.cli.doctor.gathering.tables import LakeTables, gather_tables


@pytest.mark.parametrize("wanted", [LakeTables(None, ["t"], "delta"), LakeTables("/lake", [], "delta")])
def test_tables_have_to_be_named(wanted: LakeTables) -> None:
    with pytest.raises(NotApplicableError, match="--lake URL and --table NAME"):
        gather_tables(wanted, {})


def test_a_table_that_is_not_there_does_not_hide_others(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    found = gather_tables(LakeTables(str(tmp_path), ["a", "b"], "delta"), {"kafka.bootstrap.servers": "127.0.0.1:1"})
    assert [each.name for each in found] == ["a", "b"]
    assert [each.failure for each in found] == [f"There is no delta table {name} at {tmp_path}" for name in ("a", "b")]
