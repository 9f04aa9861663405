"""Checks with allowances: what the tree still has of something that it should not have, and how much of it.

The allowances lie in tests/support/allowances.py. They can only fall: more than allowed is a problem, and so is an
allowance that is no longer needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support import allowances
from tests.support.tidy.tree import outline, python_files, relative, text_files

FOLDER_MODULES_MAX = 20
# A byte order and one field: too common to belong to one format.
FORMAT_OF_ONE_FIELD = 2
Counts = Mapping[str, int]

# A word, and what finds it as a word of its own or as a part of a name.
WORDS = {
    "tell": r"tells?|telling",
    "told": r"told",
    "hears": r"hears?|heard",
    "whoever": r"whoever",
    "nobody": r"nobody",
    "somebody": r"somebody",
    "who asks": r"who[ _]asks",
    "minds": r"minds?|minded",
    "care for": r"cares?[ _]for",
    "vouch": r"vouch(?:es|ed)?",
    "bear out": r"bears?[ _]out",
    "again and again": r"again[ _]and[ _]again",
    "chance": r"chances?",
    "forsaken": r"forsaken",
    "fate": r"fates?",
    "last words": r"last[ _]words",
    "eyes": r"eyes?",
}
TREES = {"src": ("src",), "tests": ("tests",), "docs": ("docs", ".md")}
# These name the words.
WORD_LISTS = (
    "tests/support/allowances.py",
    "tests/support/tidy/counted.py",
    "tests/repo/test_tidy.py",
    "CONTRIBUTING.md",
)


class Counted(NamedTuple):
    """A check with allowances."""

    title: str
    measure: Callable[[Path], Counts]
    allowed: Counts


def inheritance_counts(root: Path) -> Counts:
    """Return the classes with a concrete base class of ours; exceptions and implementations of ports are free."""
    source = root / "src"
    modules = {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for path in python_files(root)
        if path.is_relative_to(source)
    }
    classes = {f"{module}.{each.name}": each for module, path in modules.items() for each in outline(path).classes}

    def resolve(module: str, base: str) -> str:
        if base in classes:
            return base
        imports = outline(modules[module]).imports
        head, _, rest = base.partition(".")
        target = f"{imports.get(head, f'{module}.{head}')}{'.' if rest else ''}{rest}"
        while target not in classes:
            package, _, short = target.rpartition(".")
            if package not in modules or (further := outline(modules[package]).imports.get(short)) in (None, target):
                break
            target = str(further)
        return target

    def is_exception(full: str) -> bool:
        module, _, short = full.rpartition(".")
        if full not in classes:
            return short.endswith(("Error", "Exception", "Warning", "Exit", "CancelledError"))
        return any(is_exception(resolve(module, base)) for base in classes[full].bases)

    found: Counter[str] = Counter()
    for full, each in classes.items():
        module = full.rpartition(".")[0]
        for base in each.bases:
            target = resolve(module, base)
            if target in classes and not classes[target].is_abstract and not is_exception(target):
                found[f"{each.name}({classes[target].name})"] += 1
    return found


def folder_sizes(root: Path) -> Counts:
    """Return the folders with too many modules; one file per API is the order of a folder of handlers."""
    sizes = Counter(
        relative(root, path.parent)
        for path in python_files(root)
        if path.name not in ("__init__.py", "conftest.py") and not path.name.startswith("test_")
    )
    return {
        folder: size for folder, size in sizes.items() if size > FOLDER_MODULES_MAX and not folder.endswith("handlers")
    }


def format_counts(root: Path) -> Counts:
    """Return the struct strings of file formats that stand outside of src/crabka/formats too."""
    source = root / "src" / "crabka"
    inside, outside = Counter[str](), Counter[str]()
    for path in python_files(root):
        if path.is_relative_to(source):
            (inside if path.is_relative_to(source / "formats") else outside).update(outline(path).struct_formats)
    return {text: outside[text] for text in inside if outside[text] and len(text) > FORMAT_OF_ONE_FIELD}


def word_counts(root: Path) -> Counts:
    """Return how often each unwanted word stands in each tree."""
    words = {f"word_{number}": word for number, word in enumerate(WORDS)}
    pattern = "|".join(f"(?P<{group}>{WORDS[word]})" for group, word in words.items())
    found: Counter[str] = Counter()
    for tree, text in _texts(root):
        for match in re.finditer(rf"(?<![a-z])(?:{pattern})(?![a-z])", text, re.IGNORECASE):
            found[f"{words[str(match.lastgroup)]} in {tree}"] += 1
    return found


COUNTED = [
    Counted("INHERITANCE", inheritance_counts, allowances.INHERITANCE),
    Counted("FOLDERS", folder_sizes, allowances.FOLDERS),
    Counted("FORMATS", format_counts, allowances.FORMATS),
    Counted("WORDS", word_counts, allowances.WORDS),
]


def allowance_problems(check: Counted, root: Path) -> list[str]:
    """Return what exceeds the allowances."""
    counts = check.measure(root)
    return [
        f"{name}: {count}, allowed {check.allowed.get(name, 0)}"
        for name, count in sorted(counts.items())
        if count > check.allowed.get(name, 0)
    ]


def unused_allowances(check: Counted, root: Path) -> list[str]:
    """Return the allowances that are larger than needed."""
    counts = check.measure(root)
    return [
        f"{name}: {counts.get(name, 0)}, allowed {allowed}; run python -m tests.support.tidy --lower"
        for name, allowed in sorted(check.allowed.items())
        if counts.get(name, 0) < allowed
    ]


def _texts(root: Path) -> Iterator[tuple[str, str]]:
    for path in text_files(root):
        name = relative(root, path)
        if name in WORD_LISTS or "generated" in path.parts or path.suffix not in (".py", ".md"):
            continue
        top = name.partition("/")[0]
        tree = top if top in ("src", "tests") else "docs" if path.suffix == ".md" and top != "newsfragments" else None
        if tree is not None and name != "CHANGELOG.md":
            yield tree, path.read_text()
