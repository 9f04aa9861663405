"""Consumer groups as scripts: what a report stores and answers, and what others have to give up first (KIP-848)."""

from __future__ import annotations

from pathlib import Path

from tests.support.coordinators.consumer_script import ConsumerScript
from tests.support.scripts import check_script, script_files


@script_files(Path(__file__).parent / "scripts")
def test_a_consumer_group_follows_its_script(path: Path, rewrite: bool) -> None:
    check_script(path, ConsumerScript().run, rewrite=rewrite)
