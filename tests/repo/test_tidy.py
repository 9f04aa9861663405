"""The tree keeps its own rules; each check is also shown a planted problem, so that none can pass by being blind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import tidy

ROOT = Path(__file__).parents[2]
CHECKS = [
    tidy.file_size_problems,
    tidy.function_size_problems,
    tidy.parameter_problems,
    tidy.mirror_problems,
    tidy.registry_problems,
    tidy.machine_path_problems,
    tidy.unfinished_problems,
    tidy.init_problems,
    tidy.link_problems,
    tidy.test_import_problems,
]


@pytest.mark.parametrize("check", tidy.COUNTED, ids=lambda check: check.title)
def test_the_repository_keeps_its_allowances(check: tidy.Counted) -> None:
    problems = tidy.allowance_problems(check, ROOT)
    assert not problems, "\n".join(problems)


def plant(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def function_of(lines: int) -> str:
    return "def grow():\n" + "    value = 1\n" * (lines - 1)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_repository_is_tidy(check: Callable[[Path], list[str]]) -> None:
    problems = check(ROOT)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_tidy_tree_has_no_problems(check: Callable[[Path], list[str]], tmp_path: Path) -> None:
    plant(
        tmp_path,
        "src/crabka/log/__init__.py",
        '"""Log."""\nfrom crabka.log.segment import Segment\n__all__ = ["Segment"]\n',
    )
    plant(tmp_path, "src/crabka/log/segment.py", "class Segment:\n    def read(self, a, b, c, d, e, *, f, g): ...\n")
    plant(tmp_path, "src/crabka/log/names.py", "from crabka.log.segment import Segment\n")
    plant(tmp_path, "src/crabka/protocol/generated/big.py", "class Segment: ...\n" * 900)
    plant(tmp_path, "src/crabka/log/events.py", "class A: ...\nclass B: ...\nEvent = A | B\n" + "# Many.\n" * 40)
    plant(tmp_path, "tests/unit/protocol/test_generated.py", "")
    plant(tmp_path, "tests/unit/log/test_segment.py", "")
    plant(tmp_path, "tests/unit/log/test_segment_recovery.py", "")
    plant(tmp_path, "README.md", "See the documentation at https://kafka.apache.org and run /usr/bin/env.\n")
    assert check(tmp_path) == []


def test_a_long_file_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/ok.py", "x = 1\n" * 800)
    plant(tmp_path, "src/crabka/long.py", "x = 1\n" * 801)
    assert tidy.file_size_problems(tmp_path) == ["src/crabka/long.py: 801 lines, at most 800"]


def test_a_long_function_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/ok.py", function_of(70))
    plant(tmp_path, "src/crabka/long.py", function_of(71))
    assert tidy.function_size_problems(tmp_path) == ["src/crabka/long.py:1 grow: 71 lines, at most 70"]


def test_too_many_positional_parameters_are_found(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/ok.py", "class A:\n    def f(self, a, b, c, d, e, *, g): ...\n")
    plant(tmp_path, "src/crabka/wide.py", "async def f(a, b, c, d, e, f): ...\n")
    assert tidy.parameter_problems(tmp_path) == ["src/crabka/wide.py:1 f: 6 positional parameters, at most 5"]


def test_a_module_without_a_unit_test_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/log/segment.py", "def f(): ...\n" * 41)
    plant(tmp_path, "tests/unit/test_segment.py", "")
    plant(tmp_path, "src/crabka/log/small.py", "def f(): ...\n" * 40)
    problems = tidy.mirror_problems(tmp_path)
    assert problems == [
        "src/crabka/log/segment.py: no tests/unit/log/test_segment.py",
        "tests/unit/test_segment.py: no such module in src/crabka/.",
    ]


def test_a_unit_test_without_a_module_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "tests/unit/log/test_vanished.py", "")
    assert tidy.mirror_problems(tmp_path) == ["tests/unit/log/test_vanished.py: no such module in src/crabka/log"]


@pytest.mark.parametrize(
    "line",
    ["https://py" + "pi.org/simple", "https://files.python" + "hosted.org/x", "--index" + "-url http://mirror/simple"],
)
def test_a_registry_address_is_found(line: str, tmp_path: Path) -> None:
    plant(tmp_path, "requirements.lock", f"kio==1\n{line}\n")
    assert len(tidy.registry_problems(tmp_path)) == 1


@pytest.mark.parametrize("path", ["/ro" + "ot/x", "/ho" + "me/somebody/x", "/wo" + "rk/main/src"])
def test_a_path_of_a_machine_is_found(path: str, tmp_path: Path) -> None:
    plant(tmp_path, "tools/x.py", f"DATA = '{path}'\n")
    assert len(tidy.machine_path_problems(tmp_path)) == 1


@pytest.mark.parametrize("word", ["FIX" + "ME", "TO" + "DO"])
def test_a_promise_of_work_is_found(word: str, tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/x.py", f"x = 1  # {word} later\n")
    assert len(tidy.unfinished_problems(tmp_path)) == 1


def test_code_in_an_init_file_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/log/__init__.py", "def f(): ...\n")
    assert tidy.init_problems(tmp_path) == ["src/crabka/log/__init__.py: an __init__.py only re-exports"]


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "docs/a.md", "[b](b.md#part) [site](https://example.org) [gone](../gone.md)\n")
    plant(tmp_path, "docs/b.md", "")
    assert tidy.link_problems(tmp_path) == ["docs/a.md: ../gone.md"]


def test_an_import_of_a_test_module_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "tests/unit/test_a.py", "from tests.support.x import y\nfrom tests.unit.test_b import run\n")
    assert tidy.test_import_problems(tmp_path) == ["tests/unit/test_a.py: tests.unit.test_b.run"]


def test_ignored_files_are_not_checked() -> None:
    assert ROOT / "pyproject.toml" in tidy.tracked_files(ROOT)
    assert not any(".venv" in path.parts for path in tidy.tracked_files(ROOT))
