"""`crabka transactions` against a node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.sync.producer import SyncProducer
from tests.unit.cli.conftest import RunCommand


@pytest.fixture
def opened(on_broker: RunCommand, broker: str) -> Iterator[str]:
    """A transactional id with an open transaction."""
    on_broker("topics", "create", "paid")
    with SyncProducer(broker, ProducerSettings(transactional_id="pay")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("paid", b"x").result(60)
        yield "pay"


def test_an_open_transaction_is_listed_and_aborted(on_broker: RunCommand, opened: str) -> None:
    (row,) = on_broker("transactions", "list", "--json").json
    assert (row["transactional_id"], row["state"], row["partitions"]) == (opened, "Ongoing", ["paid:0"])
    assert (row["coordinator"], row["timeout_ms"]) == (1, 60_000)
    assert 0 <= row["age_ms"] < 3_600_000
    assert on_broker("transactions", "list", "--hanging", "--json").json == []
    start = str(on_broker("offsets", "get", "paid", "--at", "latest", "--json").json[0]["offset"] - 1)
    refused = on_broker("transactions", "abort", "--partition", "paid:0", "--start-offset", start, "--execute")
    assert (refused.code, "`crabka transactions abort pay` ends it" in refused.err) == (2, True)
    planned = on_broker("transactions", "abort", opened)
    assert (planned.code, planned.err) == (0, "nothing was changed; --execute carries out this plan\n")
    assert [each["state"] for each in on_broker("transactions", "list", "--json").json] == ["Ongoing"]
    assert on_broker("transactions", "abort", opened, "--execute").err == "the transaction is aborted\n"
    assert on_broker("transactions", "list", "--json").json == []
    (ended,) = on_broker("transactions", "list", "--all", "--json").json
    assert (ended["state"], ended["age_ms"], ended["partitions"]) == ("Empty", None, [])
    again = on_broker("transactions", "abort", opened, "--execute")
    assert (again.code, again.err) == (2, "crabka: pay has no open transaction: its state is Empty\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "name the transaction: either ID, or --partition TOPIC:PARTITION with --start-offset N"),
        (("a", "--partition", "t:0", "--start-offset", "0"), "name the transaction"),
        (("--partition", "t:0"), "name the transaction"),
        (("a", "--start-offset", "0"), "name the transaction"),
        (("unknown",), "no coordinator knows the transactional id unknown"),
        (("--partition", "t", "--start-offset", "0"), "--partition t: not of the form TOPIC:PARTITION"),
        (
            ("--partition", "aborted:0", "--start-offset", "3"),
            "aborted-0 has no open transaction that begins at offset 3",
        ),
    ],
)
def test_a_transaction_has_to_be_named(on_broker: RunCommand, arguments: tuple[str, ...], text: str) -> None:
    on_broker("topics", "create", "aborted")
    result = on_broker("transactions", "abort", *arguments, "--execute")
    assert result.code == 2
    assert result.err.startswith(f"crabka: {text}")
