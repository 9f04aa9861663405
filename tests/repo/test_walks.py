"""ARCHITECTURE.md shows the real paths through the code, and no path grows over its limit of files."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from tests.support.nodes.sim_node import SimNode, batch

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "crabka"
PAGE = ROOT / "ARCHITECTURE.md"
STEP = re.compile(r"^- `([\w/]+\.py): ([\w.]+)`", re.MULTILINE)
# Section and its largest number of files.
LIMITS = {"Produce": 14, "Fetch": 16, "Tier copy": 22, "Spark split": 26}
HELPER = re.compile(r"`([\w/]+\.py)`")
# The simulation has a file system of its own, and its other parts in `testing`.
NOT_SIMULATED = "vfs/"
SIMULATED = "testing/"


class Step(NamedTuple):
    """One line of a walk."""

    file: str
    function: str


def walks(page: str) -> dict[str, list[Step]]:
    sections = re.split(r"^### (.+)$", page, flags=re.MULTILINE)[1:]
    return {
        name: [Step(*found) for found in STEP.findall(text)] for name, text in zip(*[iter(sections)] * 2, strict=True)
    }


def missing_steps(steps: list[Step]) -> list[Step]:
    return [step for step in steps if not _has_function(SOURCE / step.file, step.function)]


def _has_function(path: Path, name: str) -> bool:
    body: list[ast.stmt] = ast.parse(path.read_text()).body if path.exists() else []
    *classes, function = name.split(".")
    for each in classes:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == each), [])
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function for node in body)


WALKS = walks(PAGE.read_text())
HELPERS = set(HELPER.findall(PAGE.read_text().partition("## The four walks\n")[2].partition("\n### ")[0]))


def test_the_page_has_its_sections() -> None:
    assert set(WALKS) == set(LIMITS)


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_names_functions_that_exist_in_few_files(name: str) -> None:
    steps = WALKS[name]
    assert steps
    assert missing_steps(steps) == []
    assert len({step.file for step in steps}) <= LIMITS[name]


def test_a_function_that_is_gone_is_noticed() -> None:
    page = (
        "### Fetch\n\n- `net/outbox.py: Outbox.write` - out\n- `net/outbox.py: Outbox.gone`\n- `net/gone.py: write`\n"
    )
    (steps,) = walks(page).values()
    assert missing_steps(steps) == [Step("net/outbox.py", "Outbox.gone"), Step("net/gone.py", "write")]


def called_by(function: str, work: Callable[[], Any]) -> list[Step]:
    """Return one of our functions and all that it calls while some work runs, in the order of their first calls."""
    called: dict[Step, None] = {}
    outer: FrameType | None = None

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal outer
        if event == "call" and outer is None and frame.f_code.co_qualname == function:
            outer = frame
        path = Path(frame.f_code.co_filename)
        if event == "call" and outer is not None and path.is_relative_to(SOURCE):
            called.setdefault(Step(path.relative_to(SOURCE).as_posix(), frame.f_code.co_qualname))
        if event == "return" and frame is outer:
            outer = None

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(previous)
    return list(called)


@pytest.mark.parametrize("name", ["Produce", "Fetch"])
def test_a_request_takes_the_walk(name: str) -> None:
    with SimNode() as node:
        node.create_topic("t")
        for value in (b"a", b"b", b"c"):
            node.produce("t", batch(value))
        work: Callable[[], Any] = partial(node.produce, "t", batch(b"d"))
        if name == "Fetch":
            work = partial(node.fetch, "t", 1)
        work()  # loads the handler
        called = called_by(WALKS[name][0].function, work)
    steps = [step for step in WALKS[name] if not step.file.startswith(NOT_SIMULATED)]
    assert [step for step in called if step in steps] == steps
    unlisted = {step.file for step in called} - {step.file for step in steps} - HELPERS
    assert {file for file in unlisted if not file.startswith(SIMULATED)} == set()


def missing_paths(page: str) -> list[str]:
    named = re.findall(r"`([\w/]+(?:\.py|/))(?::[^`]*)?`", page)
    return [path for path in dict.fromkeys(named) if not any((root / path).exists() for root in (SOURCE, ROOT))]


def test_the_page_names_files_and_folders_that_exist() -> None:
    assert missing_paths(PAGE.read_text()) == []
    assert missing_paths("`kraft/` `kraft/core.py` `kraft/gone.py: f` `gone/`") == ["kraft/gone.py", "gone/"]
