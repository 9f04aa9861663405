"""The report as people, pipes and programs see it."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.cli.doctor.examination import CheckResult, Examination, Target
from crabka.cli.doctor.finding import error, fine, hint, locally, on_cluster, warning
from crabka.cli.doctor.report import as_document, print_report, report_lines

OPTIONS = ("--bootstrap", "h:1")
FOUND = Examination(
    Target("cid", (1, 2), (3,), "Crabka"),
    [
        CheckResult("addresses", [fine("3 brokers can be reached")]),
        CheckResult("groups", [hint("2 groups have no members.", on_cluster("groups", "describe", "g"), ["g", "h"])]),
        CheckResult(
            "quorum",
            [
                warning("The quorum has 4 voters, an even number: it survives 1 failure, as 3 voters do."),
                error("Voter 3 has not fetched for 45s.", locally("serve", "--config", "server.properties"), [3]),
            ],
        ),
        CheckResult("disks", [fine("3 log dirs")], ["broker 2 cannot be reached"]),
        CheckResult("versions", [fine("all alike")], ["broker 2 cannot be reached"]),
        CheckResult("tables", (), skipped="name tables with --lake URL and --table NAME"),
    ],
)

TEXT = """\
crabka doctor: cluster cid, 2 of 3 brokers, Crabka

ERROR    quorum: Voter 3 has not fetched for 45s.
         $ crabka serve --config server.properties

WARNING  quorum: The quorum has 4 voters, an even number: it
         survives 1 failure, as 3 voters do.

HINT     groups: 2 groups have no members.
         $ crabka groups describe g --bootstrap h:1

fine: addresses, disks, versions
not checked:
  disks, versions: broker 2 cannot be reached
  tables: name tables with --lake URL and --table NAME
1 error, 1 warning, 1 hint
"""


def test_the_worst_comes_first_and_what_is_fine_is_short() -> None:
    assert "\n".join(report_lines(FOUND, width=60, cluster_options=OPTIONS)) + "\n" == TEXT


def test_quiet_prints_problems_alone() -> None:
    lines = list(report_lines(FOUND, width=60, quiet=True))
    assert [line.split()[0] for line in lines if line and not line.startswith(" ")] == ["ERROR", "WARNING"]
    healthy = Examination(FOUND.target, FOUND.results[:2])
    assert list(report_lines(healthy, width=60, quiet=True)) == []


def test_without_problems_that_is_said() -> None:
    healthy = Examination(Target(data_dir="/d"), [CheckResult("directory", [fine("node 1")])])
    assert list(report_lines(healthy, width=60)) == ["crabka doctor: /d", "", "fine: directory", "no problems found"]


@pytest.mark.parametrize("width", [40, 80])
def test_only_commands_and_long_words_are_wider_than_the_terminal(width: int) -> None:
    lines = list(report_lines(FOUND, width=width, cluster_options=OPTIONS))
    assert all(len(line) <= width for line in lines if not line.lstrip().startswith("$"))


def test_names_cannot_steer_the_terminal() -> None:
    found = Examination(FOUND.target, [CheckResult("groups", [error("Group \x1b[2J\x07 is odd.")])])
    assert any("Group \\x1b[2J\\x07 is odd." in line for line in report_lines(found, width=80))


def test_programs_get_everything() -> None:
    document: dict[str, Any] = as_document(FOUND, OPTIONS)
    assert (document["schema"], document["healthy"], document["cluster"]) == (1, False, "cid")
    assert (document["brokers"], document["fenced"], document["software"]) == ([1, 2], [3], "Crabka")
    assert document["counts"] == {"error": 1, "warning": 1, "hint": 1, "ok": 3}
    assert [each["severity"] for each in document["findings"]] == ["error", "warning", "hint", "ok", "ok", "ok"]
    assert document["findings"][2] == {
        "severity": "hint",
        "check": "groups",
        "reason": "2 groups have no members.",
        "command": "crabka groups describe g --bootstrap h:1",
        "places": ["g", "h"],
    }
    assert document["not_checked"] == [
        {"check": "disks", "reason": "broker 2 cannot be reached"},
        {"check": "versions", "reason": "broker 2 cannot be reached"},
        {"check": "tables", "reason": "name tables with --lake URL and --table NAME"},
    ]


def test_pipes_get_a_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(FOUND, as_json=False, quiet=False, cluster_options=())
    head, *rows = capsys.readouterr().out.splitlines()
    assert head == "severity\tcheck\treason\tcommand"
    assert len(rows) == 6
    print_report(FOUND, as_json=False, quiet=True, cluster_options=())
    assert [row.split("\t")[0] for row in capsys.readouterr().out.splitlines()[1:]] == ["error", "warning"]
