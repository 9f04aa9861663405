"""The files of the tree and what the checks read from its modules."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# A module of this length at most may go without a test of its own.
UNTESTED_LINES_MAX = 40
TEXT_SUFFIXES = frozenset({".cfg", ".json", ".lock", ".md", ".py", ".sh", ".toml", ".txt", ".xml", ".yaml", ".yml"})
TEXT_NAMES = frozenset({"LICENSE", "Makefile", ".editorconfig", ".gitignore", "run"})


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


def python_files(root: Path) -> list[Path]:
    """Return the Python files that people wrote."""
    return [path for path in tracked_files(root) if path.suffix == ".py" and "generated" not in path.parts]


def text_files(root: Path) -> Iterator[Path]:
    """Yield the files with text, without what Apache Kafka wrote."""
    golden = root / "tests" / "golden"
    for path in tracked_files(root):
        if (path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES) and not path.is_relative_to(golden):
            yield path


def relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


class Function(NamedTuple):
    """The size of a function."""

    name: str
    line: int
    lines: int
    positional: int


class Class(NamedTuple):
    """A top-level class; names of bases as the module writes them."""

    name: str
    bases: list[str]
    is_abstract: bool


class Outline(NamedTuple):
    """What the checks read of a module; its syntax tree would be a hundred times larger."""

    functions: list[Function]
    classes: list[Class]
    # The dotted name that an imported name stands for.
    imports: dict[str, str]
    struct_formats: list[str]
    has_code: bool
    wants_test: bool


def outline(path: Path) -> Outline:
    """Return what the checks read of a module."""
    return _outline_of(path.read_text(), str(path))


@functools.cache
def _outline_of(text: str, path: str) -> Outline:
    # Several checks read the same thousands of files: parsing them takes longer than everything else.
    tree = ast.parse(text, filename=path)
    return Outline(
        [
            Function(
                node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1, _positional_count(node)
            )
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ],
        [
            Class(node.name, [ast.unparse(base).partition("[")[0] for base in node.bases], _is_abstract(node))
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        ],
        dict(_imports(tree)),
        list(_struct_formats(tree)),
        has_code=not all(_is_reexport(node) for node in tree.body),
        wants_test=len(text.splitlines()) > UNTESTED_LINES_MAX
        and not all(_is_reexport(node) or _is_declaration(node) for node in tree.body),
    )


def _is_abstract(node: ast.ClassDef) -> bool:
    """Whether a class is a port: a Protocol, or one with methods that an implementation must write."""
    if any(ast.unparse(base).partition("[")[0] in ("Protocol", "ABC") for base in node.bases):
        return True
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any("abstractmethod" in ast.unparse(mark) for each in functions for mark in each.decorator_list)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name


def _struct_formats(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="struct")), args=[ast.Constant(value=str(text)), *_]):
                yield text


def _positional_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _is_declaration(node: ast.stmt) -> bool:
    """Whether a statement only names types: type variables, unions, and classes whose functions have no body."""
    match node:
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec" | "NewType"))):
            return True
        case ast.Assign(value=ast.BinOp(op=ast.BitOr())):
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
