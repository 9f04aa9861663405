"""`crabka users` against a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.nodes.process import wait_until
from tests.unit.cli.conftest import CommandResult, RunCommand

CANARY = "canary-4711"
BOTH = ("--mechanism", "scram-sha-256", "--mechanism", "SCRAM-SHA-512")


@pytest.fixture
def users(on_broker: RunCommand) -> Iterator[RunCommand]:
    """Run `crabka users`; afterwards the shared node has no user."""

    def run(*arguments: str, stdin: bytes = b"") -> CommandResult:
        return on_broker("users", *arguments, stdin=stdin)

    yield run
    for name in {each["user"] for each in run("list", "--json").json}:
        run("delete", name, "--execute")


def listed(users: RunCommand, expected: list[Any]) -> bool:
    """Wait until the broker has read of the changes that the controller made."""
    return bool(wait_until(lambda: users("list", "--json").json == expected, f"the users are {expected}"))


def test_users_are_added_listed_changed_and_deleted(users: RunCommand) -> None:
    assert users("list", "--json").json == []
    added = users("add", "alice", *BOTH, "--json", stdin=f"{CANARY}\n".encode())
    both = [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert added.json == both
    assert CANARY not in added.out + added.err
    assert listed(users, both)
    assert users("list", "alice", "--json").json == both

    again = users("add", "alice", stdin=b"other\n")
    assert again.code == 1
    assert "user alice has a password for SCRAM-SHA-512; --replace changes it" in again.err
    changed = users("add", "alice", "--replace", "--iterations", "8192", "--json", stdin=b"other\n")
    assert changed.json == [{**both[1], "iterations": 8192}]
    assert listed(users, [both[0], *changed.json])

    planned = users("delete", "alice", "--json")
    assert len(planned.json) == 2
    assert "nothing was changed" in planned.err
    one = users("delete", "alice", "--mechanism", "SCRAM-SHA-256", "--execute", "--json")
    assert one.json == [both[0]]
    assert listed(users, changed.json)
    assert users("delete", "alice", "--execute").code == 0
    assert listed(users, [])


def test_mistakes_are_one_sentence(users: RunCommand) -> None:
    password = f"{CANARY}\n".encode()
    for arguments, reason in (
        (("add", "User:bob"), "User:bob: write bob; only ACLs name users with User:"),
        (("add", "bób"), "SCRAM logs in names of ASCII characters only"),
        (("add", ""), "an empty name"),
        (("add", "bob", "--mechanism", "PLAIN"), "PLAIN: not a mechanism; there are SCRAM-SHA-256, SCRAM-SHA-512"),
        (("add", "bob", "--iterations", "4095"), "--iterations"),
        (("add", "bob", "--iterations", "16385"), "--iterations"),
        (("add", "bob", f"--password={CANARY}"), "No such option: --password"),
        (("list", "zoe"), "user zoe has no password; `crabka users list` shows all users"),
        (("delete", "zoe", "--mechanism", "SCRAM-SHA-256"), "user zoe has no password for SCRAM-SHA-256"),
    ):
        result = users(*arguments, stdin=password)
        assert result.code != 0
        assert reason in result.err
        assert len(result.err.strip().splitlines()) == 1
        assert CANARY not in result.out + result.err
    assert users("list", "--json").json == []
