"""The order of test files: long ones first, so that parallel workers end at about the same time.

Workers take whole files (`--dist loadfile`), two in advance. pytest-xdist by itself begins with the files of the most
tests and ends with those of few tests, which are the long ones here: one worker would have two of them left while the
others have nothing to do. `--no-loadscope-reorder` keeps the order of this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def put_slow_files_first(items: list[pytest.Item]) -> None:
    """Move the files that hold a test marked `slow` to the front, and otherwise keep the order."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
