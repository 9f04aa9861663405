"""The set-up checks name what is missing in one line."""

from __future__ import annotations

import pytest

from tools import check_machine


def test_a_new_python_passes_and_an_old_one_is_named() -> None:
    assert check_machine.python_problem((3, 11, 0)) == ""
    assert "Python 3.9 found, 3.11 or newer needed" in check_machine.python_problem((3, 9, 18))


def test_a_full_disk_is_named_with_what_is_needed() -> None:
    assert check_machine.disk_problem(50_000) == ""
    assert "12 MB of disk free here" in check_machine.disk_problem(12)


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "21.0.4" 2024-07-16', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "17" 2021-09-14', 17),
        ("command not found", None),
    ],
)
def test_java_versions_are_read_in_old_and_new_notation(text: str, major: int | None) -> None:
    assert check_machine.java_major(text) == major


def test_java_8_and_no_java_are_problems_and_java_17_is_not() -> None:
    assert check_machine.java_problem('java version "1.8.0_392"').startswith("Java 8 found")
    assert check_machine.java_problem("").startswith("no Java found")
    assert check_machine.java_problem('openjdk version "17.0.1"') == ""


def test_every_check_prints_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_machine, "FREE_DISK_NEEDED_MB", 10**12)
    monkeypatch.setattr(check_machine, "read_java_version", lambda: "")
    assert check_machine.main(["setup", "java"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "missing", "missing"]
