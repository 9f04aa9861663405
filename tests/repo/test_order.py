"""Parallel workers begin with the long files, in every target that has parallel workers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.order import put_slow_files_first

ROOT = Path(__file__).parents[2]


def test_files_with_a_slow_test_come_first_and_stay_whole(items: list[pytest.Item]) -> None:
    put_slow_files_first(items)
    assert [item.nodeid for item in items] == ["b::1", "b::2", "c::1", "a::1", "a::2"]


@pytest.fixture
def items(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """Items of three files, of which the last two hold a slow test."""

    def item(file: str, name: str, *, slow: bool = False) -> pytest.Item:
        found = pytest.Function.from_parent(
            pytest.Module.from_parent(request.session, path=Path(file), nodeid=file), name=name, callobj=lambda: None
        )
        if slow:
            found.add_marker(pytest.mark.slow)
        return found

    return [item("a", "1"), item("a", "2"), item("b", "1"), item("b", "2", slow=True), item("c", "1", slow=True)]


def test_no_target_lets_xdist_change_the_order() -> None:
    parallel = re.findall(r"^.*--dist.*$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert parallel
    assert [line for line in parallel if "--dist loadfile --no-loadscope-reorder" not in line] == []
