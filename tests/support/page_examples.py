"""Examples in a page of the documentation: blocks of code whose first line is the name of their file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK: Final = re.compile(r"^```\w+\n# ([\w.]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def example_files(page: Path) -> dict[str, str]:
    """Return the text of each named example by its name."""
    return dict(_BLOCK.findall(page.read_text()))


def write_examples(page: Path, directory: Path) -> list[Path]:
    """Write the named examples into a directory; return their paths."""
    paths = []
    for name, text in example_files(page).items():
        path = directory / name
        path.write_text(text)
        paths.append(path)
    return paths
