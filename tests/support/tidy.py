"""Checks of the source tree that linters do not make; each returns one line per problem.

Every check takes the root of a tree, so that tests can show it a planted problem.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
POSITIONAL_PARAMETERS_MAX = 5

TEXT_SUFFIXES = frozenset({".cfg", ".json", ".lock", ".md", ".py", ".sh", ".toml", ".txt", ".xml", ".yaml", ".yml"})
TEXT_NAMES = frozenset({"LICENSE", "Makefile", ".editorconfig", ".gitignore", "run"})

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


def tracked_files(root: Path) -> list[Path]:
    """Return the files that git tracks or would track; all files below a root that is no repository."""
    if (root / ".git").exists():
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
        ).stdout.decode()
        paths = [root / name for name in listing.split("\0") if name]
    else:
        paths = list(root.rglob("*"))
    return sorted(path for path in paths if path.is_file())


def file_size_problems(root: Path) -> list[str]:
    """Return the Python files that are too long."""
    return [
        f"{_name(root, path)}: {lines} lines, at most {FILE_LINES_MAX}"
        for path in _python_files(root)
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
    modules = [path.relative_to(source) for path in _python_files(root) if path.is_relative_to(source)]
    tests = [path.relative_to(unit) for path in _python_files(root) if path.is_relative_to(unit)]
    tests = [test for test in tests if test.name.startswith("test_")]
    modules_in, tests_in = _by_directory(modules), _by_directory(tests)
    missing = [
        f"src/crabka/{module}: no tests/unit/{module.parent / f'test_{_stem(module)}.py'}"
        for module in modules
        if _outline(source / module).wants_test and not any(_mirrors(test, module) for test in tests_in[module.parent])
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
        f"{_name(root, path)}: an __init__.py only re-exports"
        for path in _python_files(root)
        if path.name == "__init__.py" and _outline(path).has_code
    ]


def link_problems(root: Path) -> list[str]:
    """Return the links in Markdown files that lead to no file."""
    return [
        f"{_name(root, path)}: {target}"
        for path in tracked_files(root)
        if path.suffix == ".md"
        for target in LINKS.findall(path.read_text())
        if "://" not in target and not (path.parent / target.partition("#")[0]).exists()
    ]


def class_name_problems(root: Path) -> list[str]:
    """Return the public top-level class names that are used more than once; nobody imports from a test module."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in _python_files(root):
        if path.name.startswith("test_"):
            continue
        for name in _outline(path).classes:
            if not name.startswith("_"):
                places[name].append(_name(root, path))
    return [f"class {name} in {', '.join(files)}" for name, files in sorted(places.items()) if len(files) > 1]


def _python_files(root: Path) -> list[Path]:
    return [path for path in tracked_files(root) if path.suffix == ".py" and "generated" not in path.parts]


def _text_files(root: Path) -> Iterator[Path]:
    golden = root / "tests" / "golden"
    for path in tracked_files(root):
        if (path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES) and not path.is_relative_to(golden):
            yield path


def _matching_lines(root: Path, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{_name(root, path)}:{number}: {match.group()}"
        for path in _text_files(root)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if (match := pattern.search(line))
    ]


class _Function(NamedTuple):
    name: str
    line: int
    lines: int
    positional: int


class _Outline(NamedTuple):
    """What the checks want to know of a module; its syntax tree would be a hundred times larger."""

    functions: list[_Function]
    classes: list[str]
    has_code: bool
    wants_test: bool


def _outline(path: Path) -> _Outline:
    return _outline_of(path.read_text(), str(path))


@functools.cache
def _outline_of(text: str, path: str) -> _Outline:
    # Several checks read the same thousands of files: parsing them takes longer than everything else.
    tree = ast.parse(text, filename=path)
    return _Outline(
        [
            _Function(
                node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1, _positional_count(node)
            )
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ],
        [node.name for node in tree.body if isinstance(node, ast.ClassDef)],
        has_code=not all(_is_reexport(node) for node in tree.body),
        wants_test=not all(_is_reexport(node) or _is_declaration(node) for node in tree.body),
    )


def _functions(root: Path) -> Iterator[tuple[str, _Function]]:
    for path in _python_files(root):
        for function in _outline(path).functions:
            yield f"{_name(root, path)}:{function.line} {function.name}", function


def _positional_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _is_test_entry(function: _Function) -> bool:
    # pytest calls these by keyword: fixtures and cases of a parametrized test.
    return function.name.startswith("test_")


def _is_declaration(node: ast.stmt) -> bool:
    """Whether a statement only names types: type variables, and classes whose functions have no body."""
    match node:
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "NewType"))):
            return True
        case ast.ClassDef():
            functions = [inner for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]
            return all(isinstance(line, ast.Expr) for function in functions for line in function.body)
    return False


def _is_reexport(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__version__" | "__getattr__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return all(_is_reexport(inner) for inner in node.body)
    return False


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


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()
