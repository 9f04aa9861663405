"""Log dirs: offline, full, slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from crabka.cli.doctor.finding import (
    Finding,
    Outcome,
    brokers,
    cannot_reach,
    counted,
    error,
    fine,
    hint,
    on_cluster,
    warning,
)
from crabka.cli.units import format_size

FULL_SHARE: Final = 0.03
LOW_SHARE: Final = 0.10
SLOW_MS: Final = 100.0
LATE_MS: Final = 25.0
_MANY_DIRS: Final = 2


class DirFacts(NamedTuple):
    """A log dir as its broker reports it, and its speed if it is on this machine."""

    broker: int
    path: str
    is_online: bool
    # -1 if the broker does not report them.
    total_bytes: int
    usable_bytes: int
    replica_count: int
    sync_ms: tuple[float, ...] = ()


class DiskFacts(NamedTuple):
    """The log dirs of the brokers that answered."""

    dirs: Sequence[DirFacts]
    unreachable: Sequence[int] = ()


def find_disks(facts: DiskFacts) -> Outcome:
    """Return log dirs that are offline, full or slow."""
    findings = [found for each in facts.dirs for found in _dir(each, facts.dirs)]
    if not findings and facts.dirs:
        findings.append(fine(_summary(facts.dirs)))
    unknown = cannot_reach(facts.unreachable)
    silent = sorted({each.broker for each in facts.dirs if each.is_online and each.total_bytes < 0})
    if silent:
        unknown.append(f"the room on {brokers(silent)} is not reported")
    return Outcome(findings, unknown)


def room_finding(path: str, total_bytes: int, usable_bytes: int, owner: str = "") -> Finding | None:
    """Return a finding for a disk that has little room; its command depends on what else there is."""
    if total_bytes <= 0 or usable_bytes < 0 or usable_bytes >= total_bytes * LOW_SHARE:
        return None
    share = f"{100 * usable_bytes / total_bytes:.1f} %"
    text = f"Log dir {path}{owner} has {format_size(usable_bytes)} left of {format_size(total_bytes)} ({share})."
    return error(text, places=[path]) if usable_bytes < total_bytes * FULL_SHARE else warning(text, places=[path])


def speed_finding(path: str, sync_ms: Sequence[float], owner: str = "") -> Finding | None:
    """Return a finding for a disk that takes long to make a small write durable."""
    if not sync_ms or median(sync_ms) < LATE_MS:
        return None
    typical, worst = median(sync_ms), max(sync_ms)
    text = f"Log dir {path}{owner} takes {typical:.0f} ms to sync 4 KiB (slowest of {len(sync_ms)}: {worst:.0f} ms)."
    return warning(text, places=[path]) if typical >= SLOW_MS else hint(text, places=[path])


def _dir(each: DirFacts, dirs: Sequence[DirFacts]) -> Iterator[Finding]:
    owner = f" of broker {each.broker}"
    if not each.is_online:
        yield error(
            f"Log dir {each.path}{owner} is offline: its replicas are not served until the disk works and the node "
            "is started again.",
            on_cluster("log-dirs", "list", "--broker", each.broker),
            [each.path],
        )
        return
    siblings = [other for other in dirs if other.broker == each.broker and other.is_online]
    room = room_finding(each.path, each.total_bytes, each.usable_bytes, owner)
    if room is not None:
        spread = on_cluster("log-dirs", "balance", "--broker", each.broker, "--execute")
        look = on_cluster("log-dirs", "list", "--broker", each.broker)
        yield replace(room, command=spread if len(siblings) >= _MANY_DIRS else look)
    speed = speed_finding(each.path, each.sync_ms, owner)
    if speed is not None:
        cordon = on_cluster("log-dirs", "cordon", each.path, "--broker", each.broker)
        yield replace(speed, command=cordon) if len(siblings) >= _MANY_DIRS else speed


def _summary(dirs: Sequence[DirFacts]) -> str:
    known = [each.usable_bytes / each.total_bytes for each in dirs if each.total_bytes > 0]
    room = f", the fullest has {100 * min(known):.0f} % left" if known else ""
    synced = [median(each.sync_ms) for each in dirs if each.sync_ms]
    speed = f", a sync takes {max(synced):.1f} ms" if synced else ""
    return f"{counted(len(dirs), 'log dir')}{room}{speed}"
