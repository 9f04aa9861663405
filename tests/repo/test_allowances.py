"""What the tree still has against its rules only falls; each check is also shown a planted violation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import allowances
from tests.support.tidy import (
    COUNTED,
    Counted,
    allowance_problems,
    folder_sizes,
    format_counts,
    inheritance_counts,
    unused_allowances,
    word_counts,
)
from tests.support.tidy.__main__ import lowered, source_of

ROOT = Path(__file__).parents[2]


def plant(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("check", COUNTED, ids=lambda check: check.title)
def test_allowances_are_as_small_as_they_can_be(check: Counted) -> None:
    problems = unused_allowances(check, ROOT)
    assert not problems, "\n".join(problems)


def test_more_and_less_than_allowed_are_problems(tmp_path: Path) -> None:
    check = Counted("WORDS", lambda _: {"a": 2, "b": 2, "d": 1}, {"a": 2, "b": 1, "c": 3})
    assert allowance_problems(check, tmp_path) == ["b: 2, allowed 1", "d: 1, allowed 0"]
    assert [problem.partition(";")[0] for problem in unused_allowances(check, tmp_path)] == ["c: 0, allowed 3"]


def test_allowances_are_lowered_and_never_raised() -> None:
    table = lowered({"a": 2, "b": 1, "c": 3}, {"a": 1, "b": 2, "d": 1})
    assert table == {"a": 1, "b": 1}
    text = source_of({"WORDS": table, "FOLDERS": {}})
    assert text.startswith(f'"""{allowances.__doc__}"""\n')
    assert text.endswith('\nWORDS: dict[str, int] = {\n    "a": 1,\n    "b": 1,\n}\n\nFOLDERS: dict[str, int] = {}\n')


def test_a_concrete_base_class_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/log/__init__.py", "from crabka.log.state import LogState\n")
    plant(tmp_path, "src/crabka/log/state.py", "class LogState: ...\nclass OneLog(LogState): ...\n")
    plant(tmp_path, "src/crabka/a.py", "from crabka.log import LogState as State\nclass Reads(State): ...\n")
    plant(tmp_path, "src/crabka/b.py", "import crabka.log.state\nclass Writes(crabka.log.state.LogState): ...\n")
    assert inheritance_counts(tmp_path) == {"OneLog(LogState)": 1, "Reads(LogState)": 1, "Writes(LogState)": 1}


def test_exceptions_ports_and_foreign_classes_may_be_base_classes(tmp_path: Path) -> None:
    plant(
        tmp_path,
        "src/crabka/a.py",
        "class Port(Protocol[T]): ...\nclass Base(ABC): ...\nclass Shape:\n    @abstractmethod\n    def f(self): ...\n"
        "class LogError(OSError): ...\nclass CorruptError(LogError): ...\nclass Mode(enum.Enum): ...\n"
        "class A(Port[int]): ...\nclass B(Base): ...\nclass C(Shape): ...\n",
    )
    assert inheritance_counts(tmp_path) == {}


def test_a_large_folder_is_found_unless_it_holds_handlers(tmp_path: Path) -> None:
    for number in range(21):
        plant(tmp_path, f"src/crabka/log/m{number}.py", "")
        plant(tmp_path, f"src/crabka/broker/handlers/m{number}.py", "")
        plant(tmp_path, f"src/crabka/protocol/generated/m{number}.py", "")
        plant(tmp_path, f"tests/unit/log/test_{number}.py", "")
    for name in ("__init__", *(f"m{number}" for number in range(20))):
        plant(tmp_path, f"src/crabka/net/{name}.py", "")
    assert folder_sizes(tmp_path) == {"src/crabka/log": 21}


def test_a_format_that_is_written_twice_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/formats/time_index.py", 'ENTRY = struct.Struct(">qI")\nCOUNT = struct.Struct(">i")\n')
    plant(tmp_path, "src/crabka/log/a.py", 'OTHER = struct.Struct(">qq")\nstruct.unpack(">i", data)\n')
    plant(tmp_path, "src/crabka/spark/a.py", 'struct.unpack(">qI", data)\nstruct.calcsize(">qI")\n')
    assert format_counts(tmp_path) == {">qI": 2}


def test_unwanted_words_are_counted_in_texts_and_in_names(tmp_path: Path) -> None:
    plant(tmp_path, "src/crabka/a.py", '"""Nobody is told."""\nis_told = "untold stories, a fortune teller"\n')
    plant(tmp_path, "tests/test_a.py", "def test_nobody_hears_of_it(): ...\n")
    plant(tmp_path, "README.md", "Again and again: who asks?\n")
    plant(tmp_path, "CHANGELOG.md", "It was told.\n")
    assert word_counts(tmp_path) == {
        "nobody in src": 1,
        "told in src": 2,
        "nobody in tests": 1,
        "hears in tests": 1,
        "again and again in docs": 1,
        "who asks in docs": 1,
    }
