"""The documents that are made from the code are current, and the check notices when they are not."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from crabka.cli.app import app
from crabka.cli.tree import build_tree, leaves
from crabka.kraft.roles import TRANSITIONS
from crabka.remote.lifecycle import PARTITION_DELETE_TRANSITIONS, SEGMENT_TRANSITIONS
from crabka.remote.segments import RemoteLogSegmentState, RemotePartitionDeleteState
from tools import generate_docs
from tools.pages.cli import SHOWN, cli_page
from tools.pages.consensus import state_diagram
from tools.pages.tiering import transition_diagram

# The page of commands is made beside a node with a tier.
pytestmark = pytest.mark.allow_leaks("obstore keeps its threads")

ROOT = Path(__file__).parents[2]
# The names of commands that list or describe.
LISTING = {"list", "describe", "status", "ls", "get", "check"}


def test_generated_pages_are_current() -> None:
    assert generate_docs.outdated() == [], "run `make docs`"


def test_a_changed_or_missing_page_is_noticed(tmp_path: Path) -> None:
    generate_docs.write_pages(list(generate_docs.PAGES), tmp_path)
    assert generate_docs.outdated(tmp_path) == []
    (tmp_path / "docs/configuration.md").write_text("old")
    assert generate_docs.outdated(tmp_path) == ["docs/configuration.md"]
    (tmp_path / "docs/configuration.md").unlink()
    assert generate_docs.outdated(tmp_path) == ["docs/configuration.md"]


def test_every_page_says_how_it_is_made() -> None:
    for build in generate_docs.PAGES.values():
        assert "`make docs`" in build()


def test_the_page_of_commands_shows_what_every_list_prints() -> None:
    words = [words for words, _ in leaves(build_tree(app)) if words.split()[-1] in LISTING]
    shown = [each.command for each in SHOWN]
    assert [each for each in words if not any(command.startswith(each) for command in shown)] == []
    assert len(words) >= 12


def test_transcripts_fit_a_terminal_and_hold_nothing_of_this_machine() -> None:
    page = cli_page()
    blocks = page.split("```console\n")[1:]
    lines = [line for block in blocks for line in block.partition("```")[0].splitlines()]
    assert len(blocks) == len(SHOWN) + 1
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if "crabka:" in line or "Traceback" in line] == []
    assert tempfile.gettempdir() not in page


def test_the_state_diagram_has_every_legal_change_of_role() -> None:
    diagram = state_diagram()
    for before, targets in TRANSITIONS.items():
        for after in targets:
            assert f"{before.value} --> {after.value}: " in diagram
    assert diagram in (ROOT / "docs/internals/consensus.md").read_text()


def test_the_diagrams_of_the_tier_have_every_legal_step() -> None:
    page = (ROOT / "docs/internals/tiering.md").read_text()
    segments, partitions = transition_diagram(SEGMENT_TRANSITIONS), transition_diagram(PARTITION_DELETE_TRANSITIONS)
    assert segments in page
    assert partitions in page
    assert "    COPY_SEGMENT_STARTED --> COPY_SEGMENT_FINISHED: " in segments
    assert segments.count("[*] --> ") == partitions.count("[*] --> ") == 1
    assert segments.count(" --> ") == len(RemoteLogSegmentState) + 2
    assert partitions.count(" --> ") == len(RemotePartitionDeleteState) + 1
