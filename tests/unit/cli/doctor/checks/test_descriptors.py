"""Findings about file descriptors."""

from __future__ import annotations

import pytest

from crabka.cli.doctor.checks.descriptors import ProcessFiles, find_descriptors
from crabka.cli.doctor.finding import NotApplicableError
from tests.support.doctor.findings import line, only


@pytest.mark.parametrize(
    ("process", "severity", "text"),
    [
        (ProcessFiles(1, 7, 100, 65_536), "ok", "open files: 100 of 65,536"),
        (ProcessFiles(1, 7, -1, 65_536), "ok", "open files: an unknown number of 65,536"),
        (
            ProcessFiles(1, 7, 100, 1_024),
            "warning",
            "Broker 1 (process 7) may open only 1,024 files and connections; 65,536 is usual.",
        ),
        (ProcessFiles(1, 7, 7_000, 10_000), "warning", "Broker 1 (process 7) has 7,000 of 10,000 possible files open."),
        (ProcessFiles(1, 7, 9_000, 10_000), "error", "Broker 1 (process 7) has 9,000 of 10,000 possible files open."),
    ],
)
def test_files_of_a_process(process: ProcessFiles, severity: str, text: str) -> None:
    found = only(find_descriptors([process], []))
    assert (found.severity.value, found.reason) == (severity, text)
    assert line(found) == ("" if severity == "ok" else "prlimit --pid 7 --nofile=65536:65536")


def test_brokers_elsewhere_are_not_known() -> None:
    assert find_descriptors([ProcessFiles(1, 7, 1, 65_536)], [2, 3]).unknown == ["brokers 2, 3 not on this machine"]
    with pytest.raises(NotApplicableError, match="no broker runs on this machine"):
        find_descriptors([], [1])
