"""Write the documents that are made from the code, or check that they are current.

    python tools/generate_docs.py           rewrite what is out of date
    python tools/generate_docs.py --check   exit 1 and name what is out of date

A page is a function without arguments that returns Markdown; `PAGES` says where it goes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.pages.cli import cli_page  # noqa: E402 - the path is set up above
from tools.pages.compatibility import compatibility_page  # noqa: E402 - the path is set up above
from tools.pages.configuration import configuration_page  # noqa: E402 - the path is set up above
from tools.pages.consensus import consensus_page  # noqa: E402 - the path is set up above
from tools.pages.tiering import tiering_page  # noqa: E402 - the path is set up above

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/COMPATIBILITY.md": compatibility_page,
    "docs/cli.md": cli_page,
    "docs/configuration.md": configuration_page,
    "docs/internals/consensus.md": consensus_page,
    "docs/internals/tiering.md": tiering_page,
}


def outdated(root: Path = ROOT) -> list[str]:
    """Return the pages whose file does not hold what the code says now."""
    return [name for name, build in PAGES.items() if _content(root / name) != build()]


def write_pages(names: list[str], root: Path = ROOT) -> None:
    """Write the named pages."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGES[name](), encoding="utf-8")


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: list[str]) -> int:
    """Run the tool; return its exit code."""
    names = outdated()
    if "--check" in arguments:
        for name in names:
            sys.stderr.write(f"{name} is out of date: run `make docs`\n")
        return 1 if names else 0
    write_pages(names)
    for name in names:
        sys.stdout.write(f"wrote {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
