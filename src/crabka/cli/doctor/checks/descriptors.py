"""File descriptors of nodes on this machine: what the process has open, against its limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import Finding, NotApplicableError, Outcome, brokers, error, fine, shell, warning

NEARLY_ALL_SHARE: Final = 0.9
MOST_SHARE: Final = 0.7
# A node with partitions and clients needs some thousands; many systems give 1024.
LEAST_LIMIT: Final = 4_096
GOOD_LIMIT: Final = 65_536


class ProcessFiles(NamedTuple):
    """The process of a broker; -1 open files if this user may not count them."""

    broker: int
    pid: int
    open_count: int
    limit: int


def find_descriptors(processes: Sequence[ProcessFiles], elsewhere: Sequence[int]) -> Outcome:
    """Return processes that may run out of descriptors. Raises NotApplicableError if no node is on this machine."""
    if not processes:
        raise NotApplicableError("no broker runs on this machine under a user whose limits can be read")
    findings = [found for each in processes if (found := _process(each)) is not None]
    if not findings:
        shown = ", ".join(f"{_count(each)} of {each.limit:,}" for each in processes)
        findings.append(fine(f"open files: {shown}"))
    unknown = [f"{brokers(elsewhere)} not on this machine"] if elsewhere else []
    return Outcome(findings, unknown)


def _process(each: ProcessFiles) -> Finding | None:
    raise_limit = shell("prlimit", "--pid", each.pid, f"--nofile={GOOD_LIMIT}:{GOOD_LIMIT}")
    if each.open_count >= each.limit * MOST_SHARE:
        kind = error if each.open_count >= each.limit * NEARLY_ALL_SHARE else warning
        return kind(
            f"Broker {each.broker} (process {each.pid}) has {each.open_count:,} of {each.limit:,} possible files open.",
            raise_limit,
            [each.broker],
        )
    if each.limit < LEAST_LIMIT:
        return warning(
            f"Broker {each.broker} (process {each.pid}) may open only {each.limit:,} files and connections; "
            f"{GOOD_LIMIT:,} is usual.",
            raise_limit,
            [each.broker],
        )
    return None


def _count(each: ProcessFiles) -> str:
    return "an unknown number" if each.open_count < 0 else f"{each.open_count:,}"
