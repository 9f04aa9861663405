"""Findings about consumer groups."""

from __future__ import annotations

from crabka.cli.doctor.checks.groups import GroupFacts, GroupPosition, find_groups
from crabka.ids import TopicPartition
from tests.support.doctor.findings import line, only, texts

DAY_MS = 86_400_000
SOUND = GroupPosition("g", True, TopicPartition("t", 0), 90, 10, 100)


def facts(*positions: GroupPosition) -> GroupFacts:
    return GroupFacts(positions, len({each.group for each in positions}))


def test_groups_that_read_are_fine() -> None:
    assert texts(find_groups(facts(SOUND))) == [("ok", "1 group, 10 records not read yet")]


def test_records_that_were_removed_before_they_were_read_are_an_error() -> None:
    other = SOUND._replace(partition=TopicPartition("t", 3), committed=9)
    found = only(find_groups(facts(SOUND._replace(committed=4), other)))
    assert found.reason == (
        "Group g missed 7 records that are removed: its offset 4 in t-0 is below the log start 10 (and so in 1 other "
        "partition)."
    )
    assert (found.severity.value, line(found)) == (
        "error",
        "crabka groups reset g --topic t:0,3 --to-earliest --execute",
    )


def test_a_group_without_members_missed_them_less_urgently() -> None:
    lost, idle = find_groups(facts(SOUND._replace(committed=4, has_members=False))).findings
    assert lost.severity.value == "warning"
    assert lost.reason.startswith("Group g, which has no members, missed 6 records")
    assert idle.severity.value == "hint"


def test_an_offset_beyond_the_log_is_an_error() -> None:
    found = only(find_groups(facts(SOUND._replace(committed=101))))
    assert found.reason == (
        "Group g committed offset 101 in t-0, whose log ends at 100: the topic was created again or lost records."
    )
    assert line(found) == "crabka groups reset g --topic t:0 --to-latest --execute"


def test_unread_records_close_to_their_removal_are_a_warning() -> None:
    near = SOUND._replace(committed=20, expiring_end=50, retention_ms=7 * DAY_MS)
    found = only(find_groups(facts(near)))
    assert found.reason == (
        "Group g is about to lose 30 unread records: in t-0 they are older than 80% of retention.ms (7d 0h)."
    )
    assert (found.severity.value, line(found)) == (
        "warning",
        f"crabka configs alter topic t --set retention.ms={14 * DAY_MS}",
    )
    assert only(find_groups(facts(near._replace(committed=50)))).severity.value == "ok"
    assert only(find_groups(facts(near._replace(committed=100, expiring_end=100)))).severity.value == "ok"


def test_abandoned_groups_are_one_hint_with_the_most_behind_first() -> None:
    idle = [
        SOUND._replace(group=name, has_members=False, committed=at) for name, at in (("a", 99), ("b", 50), ("c", 98))
    ]
    found = only(find_groups(facts(*idle, SOUND)))
    assert found.reason == "3 groups have no members and unread records: b (50), c (2), a (1)."
    assert (found.severity.value, line(found), found.places) == ("hint", "crabka groups describe b", ("b", "c", "a"))


def test_partitions_without_a_leader_say_nothing() -> None:
    unknown = SOUND._replace(log_start=None, log_end=None, expiring_end=None, committed=1, has_members=False)
    outcome = find_groups(GroupFacts([unknown], 2, ["group x: loading"]))
    assert texts(outcome) == [("ok", "2 groups, 0 records not read yet")]
    assert outcome.unknown == ["group x: loading"]
