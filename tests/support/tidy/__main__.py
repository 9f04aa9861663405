"""Lowers the allowances to what the tree still needs, never upwards: `python -m tests.support.tidy --lower`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support import allowances
from tests.support.tidy import COUNTED, allowance_problems

ROOT = Path(__file__).parents[3]


def lowered(allowed: Mapping[str, int], counts: Mapping[str, int]) -> dict[str, int]:
    """Return the allowances that are still needed."""
    found = {name: min(value, counts.get(name, 0)) for name, value in sorted(allowed.items())}
    return {name: value for name, value in found.items() if value}


def source_of(tables: Mapping[str, Mapping[str, int]]) -> str:
    """Return the text of the module of allowances."""
    parts = [f'"""{allowances.__doc__}"""', "", "from __future__ import annotations"]
    for title, table in tables.items():
        parts += [
            "",
            f"{title}: dict[str, int] = {{",
            *(f'    "{name}": {value},' for name, value in table.items()),
            "}",
        ]
    return "\n".join(parts).replace("= {\n}", "= {}") + "\n"


def main(arguments: list[str]) -> int:
    """Rewrite the file; return 1 if the tree exceeds its allowances."""
    if arguments != ["--lower"]:
        print(__doc__)
        return 2
    text = source_of({check.title: lowered(check.allowed, check.measure(ROOT)) for check in COUNTED})
    Path(allowances.__file__).write_text(text)
    problems = [problem for check in COUNTED for problem in allowance_problems(check, ROOT)]
    print("\n".join(problems) or "every allowance is as small as it can be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
