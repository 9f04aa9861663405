"""Findings, and the texts that they are made of."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.finding import Severity, counted, locally, on_cluster, shell, some, start_node
from tests.support.doctor.findings import check_command


def test_errors_and_warnings_are_problems() -> None:
    assert [severity.is_problem for severity in Severity] == [True, True, False, False]


def test_only_commands_that_use_the_cluster_get_its_options() -> None:
    options = ("--bootstrap", "h:1")
    assert on_cluster("brokers", "list").text(options) == "crabka brokers list --bootstrap h:1"
    assert locally("quorum", "repair", "--data-dir", "/a b").text(options) == "crabka quorum repair --data-dir '/a b'"
    assert shell("ls", "-la").text(options) == "ls -la"


def test_a_node_is_started_by_the_software_that_it_runs() -> None:
    given = {"advertised.listeners": "PLAINTEXT://h:1"}
    ours = start_node(is_crabka=True, **given)
    assert ours.text() == "crabka serve --config server.properties --override advertised.listeners=PLAINTEXT://h:1"
    check_command(ours.words)
    theirs = start_node(is_crabka=False, **given)
    assert theirs.text() == "kafka-server-start.sh server.properties --override advertised.listeners=PLAINTEXT://h:1"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), ([1, 2, 3], "1, 2, 3"), (list("abcde"), "a, b, c and 2 more")]
)
def test_long_lists_are_cut(names: list[object], text: str) -> None:
    assert some(names) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "replica", "1 replica"),
        (1_234, "replica", "1,234 replicas"),
        (2, "copy", "2 copies"),
        (0, "group", "0 groups"),
    ],
)
def test_nouns_follow_their_number(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text


@pytest.mark.parametrize(
    "words",
    [
        ("crabka", "groups", "resett", "g"),
        ("crabka", "groups", "reset", "g", "--to-nowhere"),
        ("crabka", "serve", "--configuration", "x"),
        ("crabka", "serve"),
        ("crabka", "brokers", "unregister", "one"),
        ("rm", "-rf", "/"),
    ],
)
def test_commands_that_do_not_exist_are_noticed(words: tuple[str, ...]) -> None:
    with pytest.raises(Exception, match=r"."):
        check_command(words)
