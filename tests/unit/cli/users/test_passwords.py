"""Where passwords come from."""

from __future__ import annotations

import getpass
import io
import sys
from pathlib import Path

import pytest

from crabka.cli.users.passwords import read_password
from crabka.errors import ConfigError

CANARY = "canary-4711"


class Terminal(io.StringIO):
    """Input of a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a person types, one entry for each prompt."""
    answers: list[str] = []

    def answer(_prompt: str) -> str:
        if not answers:
            raise EOFError
        return answers.pop(0)

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", answer)
    return answers


def test_a_prompt_wants_the_same_password_twice(typed: list[str]) -> None:
    typed += [CANARY, CANARY]
    assert read_password("alice", None).reveal() == CANARY
    for given, reason in (
        ([CANARY, "other"], "the passwords differ"),
        (["", ""], "the password is empty"),
        ([CANARY], "no password was given"),
    ):
        typed[:] = given
        with pytest.raises(ConfigError, match=reason) as raised:
            read_password("alice", None)
        assert CANARY not in str(raised.value)


def test_stdin_that_is_no_terminal_holds_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" with blanks \r\n")))
    assert read_password("alice", None).reveal() == " with blanks "


def test_without_stdin_a_file_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ConfigError, match="there is no stdin: give --password-file"):
        read_password("alice", None)


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_holds_one_line(tmp_path: Path, end: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(f"pässword{end}".encode())
    assert read_password("alice", str(file)).reveal() == "pässword"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (CANARY.encode() + b"\nx\n", "is not a single line"),
        (CANARY.encode() + b"\n\n", "is not a single line"),
        (CANARY.encode() + b"\0", "is not a single line"),
        (CANARY.encode() + b"\xff", "is not UTF-8 text"),
        (CANARY.encode() * 1000, "is longer than 4096 bytes"),
    ],
)
def test_other_files_are_refused_without_showing_them(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as raised:
        read_password("alice", str(file))
    assert CANARY not in str(raised.value)
    # A cause that is shown in a traceback would hold the bytes.
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the password file .*: No such file"):
        read_password("alice", str(tmp_path / "none"))
