"""The reader of scripts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.scripts import Command, check_script, play, script_files

SCRIPT = """\
# Comments stay.

say a 'b c' x=1
say d
----
old

say e
----
"""


def say(command: Command) -> Iterable[str]:
    yield f"{command.words} {dict(command.options)}"


def test_outputs_are_replaced_and_everything_else_stays() -> None:
    assert play(SCRIPT, say) == (
        "# Comments stay.\n\nsay a 'b c' x=1\nsay d\n----\n"
        "('a', 'b c') {'x': '1'}\n('d',) {}\n\nsay e\n----\n('e',) {}\n"
    )


def test_a_difference_fails_unless_it_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text(SCRIPT)
    with pytest.raises(pytest.fail.Exception, match=r"-old\n\+\('a'"):
        check_script(path, say, rewrite=False)
    check_script(path, say, rewrite=True)
    check_script(path, say, rewrite=False)


def test_an_error_names_the_command() -> None:
    def fails(_command: Command) -> Iterable[str]:
        raise ValueError

    with pytest.raises(ValueError) as failed:
        play(SCRIPT, fails)
    assert failed.value.__notes__ == ["script, the block that ends before line 5: say a 'b c' x=1"]


def test_scripts_without_outputs_are_refused() -> None:
    with pytest.raises(AssertionError, match="have no ----"):
        play("say a\n", say)


def test_a_directory_without_scripts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no scripts"):
        script_files(tmp_path)
