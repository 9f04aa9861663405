"""`crabka topics` against a node."""

from __future__ import annotations

from tests.unit.cli.conftest import RunCommand


def test_topic_lives_from_create_to_delete(on_broker: RunCommand) -> None:
    created = on_broker("topics", "create", "life", "-p", "2", "-c", "retention.ms=1000")
    assert (created.code, created.out) == (0, "created life\n")
    described = on_broker("topics", "describe", "life", "--json").json
    assert [(row["partition"], row["leader"], row["isr"]) for row in described] == [(0, 1, [1]), (1, 1, [1])]
    assert on_broker("topics", "alter", "life", "-p", "3").out == "life has 3 partitions now\n"
    (listed,) = [row for row in on_broker("topics", "list", "--json").json if row["topic"] == "life"]
    assert (listed["partitions"], listed["replicas"], listed["internal"]) == (3, 1, False)
    planned = on_broker("topics", "delete", "life")
    assert planned.out.splitlines()[1].startswith("life\t3\t1\t")
    assert planned.err == "nothing was changed; --execute carries out this plan\n"
    assert on_broker("topics", "delete", "life", "--execute").out == "deleted life\n"
    gone = on_broker("topics", "describe", "life")
    assert (gone.code, gone.err) == (1, "crabka: topic life does not exist; `crabka topics list` shows all topics\n")


def test_created_topics_are_reported_to_programs(on_broker: RunCommand) -> None:
    created = on_broker("topics", "create", "one", "two", "--json").json
    assert [(topic["topic"], topic["partitions"]) for topic in created] == [("one", 1), ("two", 1)]
    assert all(len(topic["id"]) == 22 for topic in created)


def test_refusal_of_the_broker_is_one_line(on_broker: RunCommand) -> None:
    refused = on_broker("topics", "create", "bad", "-c", "retention.ms=x")
    assert refused.code == 1
    assert "Invalid value x for configuration retention.ms: Not a number of type LONG" in refused.err
    assert refused.err.count("\n") == 1


def test_list_is_a_table_with_tabs_in_a_pipe(on_broker: RunCommand) -> None:
    on_broker("topics", "create", "listed", "-p", "2")
    lines = on_broker("topics", "list").out.splitlines()
    assert lines[0] == "topic\tpartitions\treplicas\tid"
    assert any(line.startswith("listed\t2\t1\t") for line in lines)
