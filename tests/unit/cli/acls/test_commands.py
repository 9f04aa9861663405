"""`crabka acls` against a node with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crabka.config.java_classes import STANDARD_AUTHORIZER
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.unit.cli.conftest import CommandResult, RunCommand


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a node with an authorizer."""
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with CrabkaProcess(tmp_path_factory.mktemp("acl-node"), settings) as node:
        yield node.bootstrap_servers


def test_acls_are_added_listed_explained_and_removed(crabka: RunCommand, guarded: str) -> None:
    def run(command: str, *arguments: str) -> CommandResult:
        result = crabka("acls", command, "--bootstrap", guarded, *arguments, "--json")
        assert result.code == 0, result.err
        return result

    assert run("list").json == []
    added = run(
        "add", "--allow", "User:alice", "--consumer", "--topic", "orders", "--group", "billing", "--prefix"
    ).json
    assert {(each["resource"], each["operation"], each["pattern"]) for each in added} == {
        ("Topic", "Read", "Prefixed"),
        ("Topic", "Describe", "Prefixed"),
        ("Group", "Read", "Prefixed"),
    }
    # A second time changes nothing.
    run("add", "--allow", "User:alice", "--operation", "Read", "--topic", "orders", "--prefix")
    run("add", "--deny", "User:alice", "--operation", "All", "--topic", "orders-secret", "--host", "::1")
    assert len(run("list").json) == 4
    assert len(run("list", "--topic", "orders-secret").json) == 1
    assert len(run("list", "--topic", "orders-secret", "--matching").json) == 3
    assert len(run("list", "--group", "billing", "--principal", "User:alice").json) == 1

    asked = ("--principal", "User:alice", "--operation", "read", "--topic")
    (allowed,) = run("explain", *asked, "orders-1").json
    assert (allowed["allowed"], allowed["rule"]) == (True, "MatchingAcl")
    assert allowed["decided_by"] == "ALLOW READ on TOPIC PREFIXED 'orders' for User:alice from *"
    (denied,) = run("explain", *asked, "orders-secret", "--host", "::1").json
    assert not denied["allowed"]
    assert denied["decided_by"].endswith("from 0:0:0:0:0:0:0:1")
    (default,) = run("explain", *asked, "other").json
    assert (default["allowed"], default["rule"]) == (False, "DefaultDeny")

    planned = run("remove", "--topic", "orders", "--prefix")
    assert len(planned.json) == 2
    assert "nothing was changed" in planned.err
    assert len(run("list").json) == 4
    removed = run(
        "remove", "--allow", "User:alice", "--operation", "Read", "--topic", "orders", "--prefix", "--execute"
    )
    assert [each["operation"] for each in removed.json] == ["Read"]
    assert len(run("list").json) == 3


def test_mistakes_are_one_sentence(crabka: RunCommand, guarded: str) -> None:
    for arguments, reason in (
        (
            ("add", "--allow", "alice", "--operation", "Read", "--topic", "t"),
            "alice: not a principal; write User:alice",
        ),
        (("add", "--allow", "User:a", "--operation", "Reed", "--topic", "t"), "Reed: not an operation; there are All"),
        (("remove",), "name what to remove"),
        (("explain", "--principal", "User:a", "--operation", "Read"), "name resources"),
    ):
        result = crabka("acls", *arguments, "--bootstrap", guarded)
        assert result.code != 0
        assert reason in result.err
        assert len(result.err.strip().splitlines()) == 1


def test_a_cluster_without_an_authorizer_says_so(crabka: RunCommand, broker: str) -> None:
    result = crabka("acls", "list", "--bootstrap", broker)
    assert result.code != 0
    assert "No Authorizer is configured on the broker" in result.err
