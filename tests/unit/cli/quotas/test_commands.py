"""`crabka quotas` against a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.nodes.process import wait_until
from tests.unit.cli.conftest import CommandResult, RunCommand

# No client of another test has these names.
REPORTS = ("--user", "quoted-user", "--client-id", "quoted-reports")


@pytest.fixture
def quotas(on_broker: RunCommand) -> Iterator[RunCommand]:
    """Run `crabka quotas`; afterwards the shared node has none."""

    def run(*arguments: str, stdin: bytes = b"") -> CommandResult:
        return on_broker("quotas", *arguments, stdin=stdin)

    yield run
    for who in (("--user", "quoted-user"), REPORTS, ("--ip", "10.0.0.7"), ("--client-id", "quoted-reports")):
        run("remove", *who, "--execute")
    wait_listed(run, [])


def wait_listed(quotas: RunCommand, expected: list[dict[str, float]], *who: str) -> list[Any]:
    """Wait until the broker has read of the changes that the controller made; return the rows."""

    def found() -> tuple[list[Any], ...]:
        rows = quotas("list", *who, "--json").json
        return (rows,) if [values(each) for each in rows] == expected else ()

    (rows,) = wait_until(found, f"the quotas are {expected}")
    return rows


def values(row: Any) -> dict[str, float]:
    return {key: value for key, value in row.items() if key != "entity" and value is not None}


def test_quotas_are_set_listed_and_removed(quotas: RunCommand) -> None:
    rates = ("producer_byte_rate=10MB", "consumer_byte_rate=20MiB")
    (made,) = quotas("set", *rates, "--user", "quoted-user", "--json").json
    assert made["entity"] == {"user": "quoted-user"}
    assert values(made) == {"producer_byte_rate": 10_000_000, "consumer_byte_rate": 20_971_520}
    quotas("set", "request_percentage=12.5", *REPORTS)
    quotas("set", "connection_creation_rate=5", "--ip", "10.0.0.7")
    expected: list[dict[str, float]] = [{"connection_creation_rate": 5}, values(made), {"request_percentage": 12.5}]
    listed = wait_listed(quotas, expected)
    assert [each["entity"] for each in listed] == [
        {"ip": "10.0.0.7"},
        {"user": "quoted-user"},
        {"user": "quoted-user", "client-id": "quoted-reports"},
    ]
    assert list(listed[2]["entity"]) == ["user", "client-id"]
    assert len(quotas("list", "--user", "quoted-user", "--json").json) == 2
    assert len(quotas("list", *REPORTS, "--json").json) == 1
    assert quotas("list", "--user-default", "--json").json == []
    # Another value of a key leaves the others.
    quotas("set", "producer_byte_rate=1", "--user", "quoted-user")
    whole: dict[str, float] = {"producer_byte_rate": 1, "consumer_byte_rate": 20_971_520}
    wait_listed(quotas, [whole, {"request_percentage": 12.5}], "--user", "quoted-user")

    planned = quotas("remove", "--user", "quoted-user", "--json")
    assert values(planned.json[0]) == whole
    assert "nothing was changed" in planned.err
    removed = quotas("remove", "producer_byte_rate", "--user", "quoted-user", "--execute", "--json").json
    assert values(removed[0]) == {"producer_byte_rate": 1}
    rest: dict[str, float] = {"consumer_byte_rate": 20_971_520}
    wait_listed(quotas, [rest, {"request_percentage": 12.5}], "--user", "quoted-user")
    quotas("remove", "--user", "quoted-user", "--execute")
    wait_listed(quotas, [{"request_percentage": 12.5}], "--user", "quoted-user")


def test_pipes_have_all_columns_and_plain_numbers(quotas: RunCommand) -> None:
    quotas("set", "producer_byte_rate=10MB", "--client-id", "quoted-reports")
    wait_listed(quotas, [{"producer_byte_rate": 10_000_000}])
    header, row = quotas("list").out.splitlines()
    assert header.split("\t") == [
        "entity",
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    ]
    assert row.split("\t") == ["client-id quoted-reports", "10000000", "", "", "", ""]


def test_mistakes_are_one_sentence(quotas: RunCommand) -> None:
    for arguments, reason in (
        (("set", "producer_byte_rate=1"), "name whom it is about: --user, --user-default"),
        (("set", "producer_byte_rate=1", "--user", "User:a"), "--user User:a: write a"),
        (("set", "--user", "a"), "Missing argument"),
        (("remove", "producer_byte_rate=1", "--user", "a"), "name the quota without its value"),
        (("remove", "rate", "--user", "a"), "rate: not a quota of user a"),
        (("remove", "--user", "zoe"), "user zoe has no quotas; `crabka quotas list` shows all"),
        (("remove", "request_percentage", "--user-default"), "default user has no request_percentage"),
    ):
        result = quotas(*arguments)
        assert result.code != 0
        assert reason in result.err
        assert len(result.err.strip().splitlines()) == 1
