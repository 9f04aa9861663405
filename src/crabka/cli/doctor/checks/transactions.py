"""Transactions that do not end: readers of committed records stop before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import Finding, Outcome, counted, error, fine, on_cluster, some
from crabka.cli.transactions.commands import OPEN_STATES
from crabka.cli.transactions.hanging import OpenInPartition
from crabka.cli.units import format_duration
from crabka.clients.admin.transactions import TransactionDescription

# Coordinators look for transactions whose time is up every 10 s.
GRACE_MS: Final = 30_000
_ONGOING: Final = "Ongoing"


class TransactionFacts(NamedTuple):
    """Transactional ids with an open transaction, and open transactions that no coordinator knows."""

    open: Sequence[TransactionDescription]
    hanging: Sequence[OpenInPartition]
    now_ms: int
    grace_ms: int = GRACE_MS


def find_transactions(facts: TransactionFacts) -> Outcome:
    """Return stuck and hanging transactions."""
    overdue = [each for each in facts.open if _is_overdue(each, facts)]
    findings = [_stuck(each, facts.now_ms) for each in overdue]
    findings += [_hanging(each, facts.now_ms) for each in facts.hanging]
    if not findings:
        findings.append(fine(f"{counted(len(facts.open), 'transaction')} open, none past its timeout"))
    return Outcome(findings)


def _is_overdue(each: TransactionDescription, facts: TransactionFacts) -> bool:
    is_open = each.state in OPEN_STATES and each.start_timestamp_ms > 0
    return is_open and facts.now_ms - each.start_timestamp_ms > each.timeout_ms + facts.grace_ms


def _stuck(each: TransactionDescription, now_ms: int) -> Finding:
    age, timeout = format_duration(now_ms - each.start_timestamp_ms), format_duration(each.timeout_ms)
    places = f" and holds up {some(each.partitions)}" if each.partitions else ""
    what = f"is open for {age}" if each.state == _ONGOING else f"began {age} ago and is still in {each.state}"
    return error(
        f"The transaction of {each.transactional_id} {what} (its timeout is {timeout}){places}; coordinator "
        f"{each.coordinator_id} does not end it.",
        on_cluster("transactions", "abort", each.transactional_id, "--execute"),
        each.partitions,
    )


def _hanging(each: OpenInPartition, now_ms: int) -> Finding:
    producer, partition = each.producer, each.partition
    start = producer.current_transaction_start_offset
    return error(
        f"A transaction of producer {producer.producer_id} is open in {partition} from offset {start} on for "
        f"{format_duration(now_ms - producer.last_timestamp)}, and no coordinator knows it: it will never end.",
        on_cluster(
            "transactions",
            "abort",
            "--partition",
            f"{partition.topic}:{partition.partition}",
            "--start-offset",
            start,
            "--execute",
        ),
        [partition],
    )
