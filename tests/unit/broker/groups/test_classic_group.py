"""Syncs, heartbeats, commits and the end of a classic group."""

from __future__ import annotations

from pathlib import Path

from tests.support.coordinators.classic_script import ClassicScript
from tests.support.scripts import check_script, script_files


@script_files(Path(__file__).parent / "scripts", "classic_group*.txt")
def test_classic_group(path: Path, *, rewrite: bool) -> None:
    check_script(path, ClassicScript(), rewrite=rewrite)
