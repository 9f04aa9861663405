"""`crabka groups` against a node."""

from __future__ import annotations

from crabka.cli.session import with_cluster
from tests.support.coordinators.silent_member import join_silently
from tests.unit.cli.conftest import RunCommand


def commit(on_broker: RunCommand, group: str, topic: str, *values: str) -> None:
    """Make a topic with records and a group that has read one of them."""
    on_broker("topics", "create", topic, "-p", "2")
    on_broker("records", "produce", f"{topic}:0", *values)
    done = on_broker("groups", "reset", group, "--topic", f"{topic}:0", "--to-offset", "1", "--execute")
    assert done.code == 0


def test_group_without_members_lives_from_commit_to_delete(on_broker: RunCommand) -> None:
    commit(on_broker, "idle", "idle-topic", "a", "b", "c")
    (listed,) = [row for row in on_broker("groups", "list", "--json").json if row["group"] == "idle"]
    assert listed == {"group": "idle", "type": "classic", "state": "Empty", "protocol": ""}
    described = on_broker("groups", "describe", "idle", "--json").json
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 2, [])
    (row,) = described["partitions"]
    assert (row["topic"], row["partition"], row["committed"], row["log_end"], row["lag"]) == ("idle-topic", 0, 1, 3, 2)
    planned = on_broker("groups", "delete", "idle")
    assert planned.out == "group\ttype\tstate\tmembers\toffsets\nidle\tclassic\tEmpty\t0\t1\n"
    assert planned.err == "nothing was changed; --execute carries out this plan\n"
    assert on_broker("groups", "delete", "idle", "--execute").out == "deleted idle\n"
    assert "idle" not in {row["group"] for row in on_broker("groups", "list", "--json").json}


def test_members_are_shown_with_what_they_own(on_broker: RunCommand, broker: str) -> None:
    commit(on_broker, "busy", "busy-topic", "a", "b")
    member_id = with_cluster(broker, lambda cluster: join_silently(cluster, "busy", "busy-topic", (0, 1)))
    described = on_broker("groups", "describe", "busy", "--json").json
    assert (described["state"], described["assignor"], described["protocol"]) == ("Stable", "range", "consumer")
    (member,) = described["members"]
    assert (member["member"], member["client"], member["host"]) == (member_id, "crabka-cli", "/127.0.0.1")
    assert member["assignment"] == ["busy-topic:0", "busy-topic:1"]
    # The second partition has an owner, but nothing is committed for it.
    lags = [(row["partition"], row["committed"], row["lag"], row["owner"]) for row in described["partitions"]]
    assert lags == [(0, 1, 1, "crabka-cli"), (1, None, None, "crabka-cli")]


def test_tables_are_apart_in_a_pipe(on_broker: RunCommand) -> None:
    commit(on_broker, "piped", "piped-topic", "a")
    head, partitions, members = on_broker("groups", "describe", "piped").out.split("\n\n")
    assert head.splitlines()[0] == "group\ttype\tstate\tassignor\tcoordinator\tmembers\tlag"
    assert head.splitlines()[1] == "piped\tclassic\tEmpty\t\t1\t0\t0"
    assert partitions.splitlines()[1].startswith("piped-topic\t0\t1\t1\t0")
    assert members.splitlines() == ["member\tinstance\tclient\thost\tassignment"]


def test_list_is_filtered_by_state_and_type(on_broker: RunCommand) -> None:
    commit(on_broker, "filtered", "filtered-topic", "a")
    empty = on_broker("groups", "list", "--state", "Empty", "--type", "classic", "--json").json
    assert "filtered" in {row["group"] for row in empty}
    assert {row["state"] for row in empty} == {"Empty"}
    assert on_broker("groups", "list", "--state", "Dead", "--json").json == []


def test_offsets_of_a_deleted_topic_go_with_it(on_broker: RunCommand) -> None:
    commit(on_broker, "orphan", "orphan-topic", "a", "b")
    on_broker("topics", "delete", "orphan-topic", "--execute")
    assert on_broker("groups", "describe", "orphan", "--json").json["partitions"] == []


def test_one_partition_is_forgotten(on_broker: RunCommand) -> None:
    commit(on_broker, "partly", "partly-topic", "a")
    on_broker("groups", "reset", "partly", "-t", "partly-topic", "--to-latest", "--execute")
    planned = on_broker("groups", "delete-offsets", "partly", "--topic", "partly-topic:1")
    assert planned.out == "topic\tpartition\tcommitted\npartly-topic\t1\t0\n"
    assert "nothing was changed" in planned.err
    forgotten = on_broker("groups", "delete-offsets", "partly", "--topic", "partly-topic:1", "--execute")
    assert forgotten.out == "group partly has no offsets for partly-topic-1 now\n"
    left = on_broker("groups", "describe", "partly", "--json").json["partitions"]
    assert [row["partition"] for row in left] == [0]


def test_group_in_use_is_not_touched(on_broker: RunCommand, broker: str) -> None:
    commit(on_broker, "kept", "kept-topic", "a")
    with_cluster(broker, lambda cluster: join_silently(cluster, "kept", "kept-topic"))
    refused = on_broker("groups", "delete", "kept", "--execute")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("crabka: group kept still has members; stop its consumers")
    subscribed = on_broker("groups", "delete-offsets", "kept", "-t", "kept-topic", "--execute")
    assert subscribed.code == 1
    assert "group kept still reads that topic; stop its consumers" in subscribed.err


def test_unknown_group_is_named_and_stops_no_other(on_broker: RunCommand) -> None:
    commit(on_broker, "real", "real-topic", "a")
    missing = on_broker("groups", "delete", "nobody", "real", "--execute")
    text = "crabka: group nobody does not exist; `crabka groups list` shows all groups\n"
    assert (missing.code, missing.err) == (1, text)
    assert on_broker("groups", "describe", "real").code == 1
    assert on_broker("groups", "describe", "nobody").err == text


def test_topics_to_forget_must_be_named(on_broker: RunCommand) -> None:
    refused = on_broker("groups", "delete-offsets", "g")
    assert (refused.code, refused.err) == (2, "crabka: name topics: --topic TOPIC[:PARTITION,…]\n")
