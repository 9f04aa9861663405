"""Findings about log dirs."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.disks import DirFacts, DiskFacts, find_disks
from tests.support.doctor.findings import line, only

GIB = 1 << 30
SOUND = DirFacts(1, "/a", True, 100 * GIB, 50 * GIB, 3, (1.0, 2.0, 3.0))


def test_dirs_with_room_are_fine() -> None:
    outcome = find_disks(DiskFacts([SOUND, SOUND._replace(path="/b", usable_bytes=20 * GIB, sync_ms=())]))
    assert only(outcome).reason == "2 log dirs, the fullest has 20 % left, a sync takes 2.0 ms"
    assert outcome.unknown == []


def test_an_offline_dir_is_an_error_and_has_no_other_finding() -> None:
    found = only(find_disks(DiskFacts([SOUND._replace(is_online=False, usable_bytes=0)])))
    assert found.reason.startswith("Log dir /a of broker 1 is offline")
    assert (found.severity.value, line(found)) == ("error", "crabka log-dirs list --broker 1")


@pytest.mark.parametrize(
    ("usable", "severity", "text"),
    [
        (10 * GIB, "ok", "1 log dir, the fullest has 10 % left, a sync takes 2.0 ms"),
        (10 * GIB - 1, "warning", "Log dir /a of broker 1 has 10.0 GiB left of 100.0 GiB (10.0 %)."),
        (3 * GIB, "warning", "Log dir /a of broker 1 has 3.0 GiB left of 100.0 GiB (3.0 %)."),
        (GIB, "error", "Log dir /a of broker 1 has 1.0 GiB left of 100.0 GiB (1.0 %)."),
        (0, "error", "Log dir /a of broker 1 has 0 B left of 100.0 GiB (0.0 %)."),
    ],
)
def test_a_dir_that_fills_up(usable: int, severity: str, text: str) -> None:
    found = only(find_disks(DiskFacts([SOUND._replace(usable_bytes=usable)])))
    assert (found.severity.value, found.reason) == (severity, text)
    assert line(found) == ("" if severity == "ok" else "crabka log-dirs list --broker 1")


def test_a_second_dir_takes_over_what_the_first_has_no_room_for() -> None:
    full = SOUND._replace(usable_bytes=0)
    found = only(find_disks(DiskFacts([full, SOUND._replace(path="/b")])))
    assert line(found) == "crabka log-dirs balance --broker 1 --execute"
    # A dir of another broker does not help.
    found = only(find_disks(DiskFacts([full, SOUND._replace(broker=2)])))
    assert line(found) == "crabka log-dirs list --broker 1"


@pytest.mark.parametrize(
    ("sync_ms", "severity", "text"),
    [
        ((24.0, 300.0, 1.0), "ok", "1 log dir, the fullest has 50 % left, a sync takes 24.0 ms"),
        ((25.0, 300.0, 1.0), "hint", "Log dir /a of broker 1 takes 25 ms to sync 4 KiB (slowest of 3: 300 ms)."),
        ((100.0,), "warning", "Log dir /a of broker 1 takes 100 ms to sync 4 KiB (slowest of 1: 100 ms)."),
    ],
)
def test_a_slow_dir(sync_ms: tuple[float, ...], severity: str, text: str) -> None:
    found = only(find_disks(DiskFacts([SOUND._replace(sync_ms=sync_ms)])))
    assert (found.severity.value, found.reason, line(found)) == (severity, text, "")


def test_a_slow_dir_beside_another_can_be_left_out_of_new_replicas() -> None:
    dirs = [SOUND._replace(sync_ms=(200.0,)), SOUND._replace(path="/b")]
    assert line(only(find_disks(DiskFacts(dirs)))) == "crabka log-dirs cordon /a --broker 1"


def test_what_is_not_reported_is_named() -> None:
    old = SOUND._replace(total_bytes=-1, usable_bytes=-1, sync_ms=())
    outcome = find_disks(DiskFacts([old], [2]))
    assert only(outcome).reason == "1 log dir"
    assert outcome.unknown == ["broker 2 cannot be reached", "the room on broker 1 is not reported"]
