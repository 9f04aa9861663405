"""Checks of the source tree that linters do not make; each returns one line per problem.

Every check takes the root of a tree, so that tests can show it a planted problem.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.tidy.tree import Function, outline, python_files, relative, text_files, tracked_files

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
POSITIONAL_PARAMETERS_MAX = 5

# Written in pieces, so that this file does not contain what it looks for.
REGISTRY_HOSTS = (
    "py" + r"pi\.",
    "python" + "hosted",
    "artifact" + "ory",
    "nex" + r"us\.",
    r"repo1?\.mav" + "en",
    "npm" + r"js\.",
)
REGISTRY_ADDRESSES = re.compile(rf"//[\w.@:-]*(?:{'|'.join(REGISTRY_HOSTS)})|index" + r"-url[= ]\S*//", re.IGNORECASE)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:ro" + r"ot|wo" + r"rk/main|ho" + r"me/\w+|Us" + r"ers/\w+)/")
LINKS = re.compile(r"\]\(([^)\s]+)\)")
UNFINISHED = re.compile(r"\b(?:FIX" + r"ME|TO" + r"DO|XX" + r"X|HA" + r"CK)\b")


def file_size_problems(root: Path) -> list[str]:
    """Return the Python files that are too long."""
    return [
        f"{relative(root, path)}: {lines} lines, at most {FILE_LINES_MAX}"
        for path in python_files(root)
        if (lines := len(path.read_text().splitlines())) > FILE_LINES_MAX
    ]


def function_size_problems(root: Path) -> list[str]:
    """Return the functions that are too long."""
    return [
        f"{where}: {function.lines} lines, at most {FUNCTION_LINES_MAX}"
        for where, function in _functions(root)
        if function.lines > FUNCTION_LINES_MAX
    ]


def parameter_problems(root: Path) -> list[str]:
    """Return the functions with too many positional parameters; keyword-only ones are free."""
    return [
        f"{where}: {function.positional} positional parameters, at most {POSITIONAL_PARAMETERS_MAX}"
        for where, function in _functions(root)
        if function.positional > POSITIONAL_PARAMETERS_MAX and not _is_test_entry(function)
    ]


def mirror_problems(root: Path) -> list[str]:
    """Return the modules of src without a unit test of their name, and the unit tests without a module or package."""
    source, unit = root / "src" / "crabka", root / "tests" / "unit"
    modules = [path.relative_to(source) for path in python_files(root) if path.is_relative_to(source)]
    tests = [path.relative_to(unit) for path in python_files(root) if path.is_relative_to(unit)]
    tests = [test for test in tests if test.name.startswith("test_")]
    modules_in, tests_in = _by_directory(modules), _by_directory(tests)
    missing = [
        f"src/crabka/{module}: no tests/unit/{module.parent / f'test_{_stem(module)}.py'}"
        for module in modules
        if outline(source / module).wants_test and not any(_mirrors(test, module) for test in tests_in[module.parent])
    ]
    orphans = [
        f"tests/unit/{test}: no such module in src/crabka/{test.parent}"
        for test in tests
        if not any(_mirrors(test, module) for module in modules_in[test.parent])
        and not (source / test.parent / test.stem.removeprefix("test_")).is_dir()
    ]
    return missing + orphans


def registry_problems(root: Path) -> list[str]:
    """Return the lines that hold the address of a package registry or of a mirror."""
    return _matching_lines(root, REGISTRY_ADDRESSES)


def machine_path_problems(root: Path) -> list[str]:
    """Return the lines that hold a path of somebody's machine."""
    return _matching_lines(root, MACHINE_PATHS)


def unfinished_problems(root: Path) -> list[str]:
    """Return the lines that promise work instead of doing it."""
    return _matching_lines(root, UNFINISHED)


def init_problems(root: Path) -> list[str]:
    """Return the `__init__.py` files that hold more than a docstring, re-exports (also on demand) and `__version__`."""
    return [
        f"{relative(root, path)}: an __init__.py only re-exports"
        for path in python_files(root)
        if path.name == "__init__.py" and outline(path).has_code
    ]


def link_problems(root: Path) -> list[str]:
    """Return the links in Markdown files that lead to no file."""
    return [
        f"{relative(root, path)}: {target}"
        for path in tracked_files(root)
        if path.suffix == ".md"
        for target in LINKS.findall(path.read_text())
        if "://" not in target and not (path.parent / target.partition("#")[0]).exists()
    ]


def _matching_lines(root: Path, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{relative(root, path)}:{number}: {match.group()}"
        for path in text_files(root)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if (match := pattern.search(line))
    ]


def test_import_problems(root: Path) -> list[str]:
    """Return the modules that import a test module; what tests share lies in tests/support."""
    return [
        f"{relative(root, path)}: {imported}"
        for path in python_files(root)
        for imported in sorted(set(outline(path).imports.values()))
        if imported.startswith("tests.") and any(part.startswith("test_") for part in imported.split(".")[1:-1])
    ]


def _functions(root: Path) -> Iterator[tuple[str, Function]]:
    for path in python_files(root):
        for function in outline(path).functions:
            yield f"{relative(root, path)}:{function.line} {function.name}", function


def _is_test_entry(function: Function) -> bool:
    # pytest calls these by keyword: fixtures and cases of a parametrized test.
    return function.name.startswith("test_")


def _by_directory(paths: list[Path]) -> defaultdict[Path, list[Path]]:
    found: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in paths:
        found[path.parent].append(path)
    return found


def _mirrors(test: Path, module: Path) -> bool:
    """Whether a test is that of a module; the two lie in the same directory of their trees."""
    wanted = f"test_{_stem(module)}"
    return test.stem == wanted or test.stem.startswith(f"{wanted}_")


def _stem(module: Path) -> str:
    return module.parent.name if module.name == "__init__.py" else module.stem.strip("_")
