"""Elections and new leaders as scripts: what one replica does, in which order, and what waits for the disk."""

from __future__ import annotations

from pathlib import Path

from tests.support.quorum.kraft_script import KraftScript
from tests.support.scripts import check_script, script_files


@script_files(Path(__file__).parent / "scripts")
def test_a_replica_follows_its_script(path: Path, rewrite: bool) -> None:
    check_script(path, KraftScript().run, rewrite=rewrite)
