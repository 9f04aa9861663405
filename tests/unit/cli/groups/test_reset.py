"""`crabka groups reset` against a node: all goals, the dry run, refusals."""

from __future__ import annotations

import pytest

from crabka.cli.session import with_cluster
from tests.support.coordinators.silent_member import join_silently
from tests.unit.cli.conftest import RunCommand

TOPIC = "to-reset"
LOG_START, LOG_END = 2, 10


@pytest.fixture(scope="module")
def group() -> str:
    return "resetting"


@pytest.fixture
def reset(on_broker: RunCommand, group: str) -> RunCommand:
    """Run a reset of a group that has committed 5 in a log from 2 to 10."""
    if on_broker("topics", "create", TOPIC, "-p", "2").code == 0:
        on_broker("records", "produce", f"{TOPIC}:0", *"abcdefghij")
        on_broker("records", "delete-before", f"{TOPIC}:0:{LOG_START}", "--execute")
    on_broker("groups", "delete", group, "--execute")
    on_broker("groups", "reset", group, "--topic", f"{TOPIC}:0", "--to-offset", "5", "--execute")
    return lambda *arguments: on_broker("groups", "reset", group, *arguments)


@pytest.mark.parametrize(
    ("goal", "new"),
    [
        (["--to-earliest"], LOG_START),
        (["--to-latest"], LOG_END),
        (["--to-offset", "7"], 7),
        (["--to-offset", "0"], LOG_START),
        (["--to-offset", "999"], LOG_END),
        (["--shift", "2"], 7),
        (["--shift", "-1"], 4),
        (["--shift", "-100"], LOG_START),
        (["--to-timestamp", "2020-01-01T00:00:00"], LOG_START),
        (["--to-timestamp", "4102444800000"], LOG_END),
    ],
)
def test_goal_decides_the_new_offset(
    reset: RunCommand, on_broker: RunCommand, group: str, goal: list[str], new: int
) -> None:
    plan = reset("--all-topics", *goal, "--json").json
    (row,) = plan["partitions"]
    assert (plan["executed"], row["committed"], row["new"], row["lag"]) == (False, 5, new, LOG_END - new)
    assert on_broker("groups", "describe", group, "--json").json["partitions"][0]["committed"] == 5
    assert reset("--all-topics", *goal, "--execute", "--json").json["executed"]
    assert on_broker("groups", "describe", group, "--json").json["partitions"][0]["committed"] == new


def test_plan_is_a_table_and_says_that_nothing_changed(reset: RunCommand) -> None:
    outcome = reset("--topic", f"{TOPIC}:0,1", "--to-offset", "999")
    header, *rows = outcome.out.splitlines()
    assert header == "topic\tpartition\tcommitted\tnew\tlog_end\tlag\tnote"
    assert rows == [
        f"{TOPIC}\t0\t5\t10\t10\t0\t999 is outside of the log",
        f"{TOPIC}\t1\t\t0\t0\t0\t999 is outside of the log",
    ]
    assert outcome.err == "nothing was changed; --execute carries out this plan\n"


def test_group_that_does_not_exist_is_made(on_broker: RunCommand, reset: RunCommand) -> None:
    arguments = ["groups", "reset", "brand-new", "--topic", TOPIC, "--to-latest"]
    planned = on_broker(*arguments)
    assert planned.err.startswith("group brand-new does not exist yet; --execute creates it\n")
    assert on_broker("groups", "describe", "brand-new").code == 1
    assert on_broker(*arguments, "--execute").code == 0
    assert on_broker("groups", "describe", "brand-new", "--json").json["lag"] == 0


def test_group_with_members_is_refused(on_broker: RunCommand, broker: str, reset: RunCommand) -> None:
    with_cluster(broker, lambda cluster: join_silently(cluster, "reading", TOPIC))
    refused = on_broker("groups", "reset", "reading", "--topic", TOPIC, "--to-earliest", "--execute")
    assert (refused.code, refused.out) == (1, "")
    assert "group reading is Stable, its members (crabka-cli) would commit over a reset; stop its" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--all-topics"], 2, "name the target: one of --to-earliest"),
        (["--all-topics", "--to-latest", "--shift", "3"], 2, "name the target: one of --to-earliest"),
        (["--to-latest"], 2, "name topics: either --topic"),
        (["--to-latest", "--topic", TOPIC, "--all-topics"], 2, "name topics: either --topic"),
        (["--to-timestamp", "soon", "--all-topics"], 2, "soon: neither milliseconds since 1970 nor a time"),
        (["--shift", "1", "--topic", f"{TOPIC}:1"], 2, f"no offset is committed for {TOPIC}-1"),
        (["--to-latest", "--topic", f"{TOPIC}:7"], 2, f"{TOPIC} has no partition 7, it has 2"),
        (["--to-latest", "--topic", "missing"], 1, "topic missing: unknown_topic_or_partition; `crabka topics list`"),
        (["--to-offset", "-3", "--all-topics"], 2, "Invalid value for '--to-offset'"),
    ],
)
def test_mistakes_are_one_clear_line(reset: RunCommand, arguments: list[str], code: int, text: str) -> None:
    outcome = reset(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert text in outcome.err
    assert outcome.err.count("\n") == 1


def test_all_topics_of_a_group_that_committed_nothing(on_broker: RunCommand) -> None:
    outcome = on_broker("groups", "reset", "nothing-yet", "--all-topics", "--to-latest")
    assert outcome.code == 2
    assert "group nothing-yet has no committed offsets for topics that exist; name topics with --topic" in outcome.err
