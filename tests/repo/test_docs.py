"""The documents that are made from the code are current, and the check notices when they are not."""

from __future__ import annotations

from pathlib import Path

from tools import generate_docs


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
