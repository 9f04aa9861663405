"""Findings about transactions."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.transactions import GRACE_MS, TransactionFacts, find_transactions
from crabka.cli.transactions.hanging import OpenInPartition
from crabka.clients.admin.admin_types import ActiveProducer
from crabka.clients.admin.transactions import TransactionDescription
from crabka.ids import TopicPartition
from tests.support.doctor.findings import line, only, texts

NOW = 10_000_000
T0 = TopicPartition("t", 0)


def opened(age_ms: int, state: str = "Ongoing") -> TransactionDescription:
    return TransactionDescription("pay", 2, state, 7, 0, 60_000, NOW - age_ms, (T0,))


def test_transactions_within_their_timeout_are_fine() -> None:
    assert texts(find_transactions(TransactionFacts([opened(60_000 + GRACE_MS)], [], NOW))) == [
        ("ok", "1 transaction open, none past its timeout")
    ]


@pytest.mark.parametrize(
    ("state", "what"),
    [("Ongoing", "is open for 2h 0m"), ("PrepareCommit", "began 2h 0m ago and is still in PrepareCommit")],
)
def test_transactions_past_their_timeout_are_errors(state: str, what: str) -> None:
    found = only(find_transactions(TransactionFacts([opened(7_200_000, state)], [], NOW)))
    assert found.reason == (
        f"The transaction of pay {what} (its timeout is 1m 0s) and holds up t-0; coordinator 2 does not end it."
    )
    assert (found.severity.value, line(found)) == ("error", "crabka transactions abort pay --execute")


def test_an_id_without_an_open_transaction_is_not_overdue() -> None:
    old = [opened(7_200_000, "Empty"), opened(0)._replace(start_timestamp_ms=-1)]
    assert only(find_transactions(TransactionFacts(old, [], NOW))).severity.value == "ok"


def test_hanging_transactions_are_errors() -> None:
    hanging = OpenInPartition(T0, ActiveProducer(9, 0, 0, NOW - 3_600_000, 0, 42))
    found = only(find_transactions(TransactionFacts([], [hanging], NOW)))
    assert found.reason == (
        "A transaction of producer 9 is open in t-0 from offset 42 on for 1h 0m, and no coordinator knows it: it will "
        "never end."
    )
    assert line(found) == "crabka transactions abort --partition t:0 --start-offset 42 --execute"
