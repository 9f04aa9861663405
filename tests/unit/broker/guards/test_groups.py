"""Permissions of groups."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import row
from tests.support.security.guarded_node import GuardedNode

NONE, DENIED = ErrorCode.none, ErrorCode.group_authorization_failed


def commit(guarded: GuardedNode, group: str, *topics: str) -> None:
    partition = row(
        "OffsetCommitRequestPartition",
        partition_index=0,
        committed_offset=0,
        committed_leader_epoch=-1,
        committed_metadata="",
    )
    guarded.ask(
        "root",
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[row("OffsetCommitRequestTopic", name=topic, partitions=[partition]) for topic in topics],
    )


def test_all_offsets_of_a_group_are_those_of_visible_topics(guarded: GuardedNode) -> None:
    commit(guarded, "open-all", "open", "closed")
    for version in (8, 10):
        answer = guarded.call("alice", "offset fetch", ApiKey.OFFSET_FETCH, version)
        rows = {group.group_id: group for group in answer.groups}
        assert {name: group.error_code for name, group in rows.items()} == {
            "open": NONE,
            "closed": DENIED,
            "open-all": NONE,
        }
        assert len(rows["open-all"].topics) == 1
        assert [topic.partitions[0].error_code for topic in rows["open"].topics] == [
            NONE,
            ErrorCode.topic_authorization_failed,
        ]


def test_a_group_is_listed_for_those_who_may_describe_it(guarded: GuardedNode) -> None:
    commit(guarded, "open-listed", "open")
    commit(guarded, "closed-listed", "open")

    def listed(user: str) -> set[str]:
        answer = guarded.call(user, "list groups", ApiKey.LIST_GROUPS, 5)
        return {group.group_id for group in answer.groups} & {"open-listed", "closed-listed"}

    assert listed("alice") == {"open-listed"}
    assert listed("bob") == set()
    # To describe the cluster is enough.
    assert listed("carol") == {"open-listed", "closed-listed"}


def test_refused_groups_are_not_described_or_deleted(guarded: GuardedNode) -> None:
    described = guarded.call("alice", "describe groups", ApiKey.DESCRIBE_GROUPS, 5)
    assert {group.group_id: group.error_code for group in described.groups} == {
        "open-none": NONE,
        "closed-none": DENIED,
    }
    commit(guarded, "closed-kept", "open")
    deleted = guarded.ask("alice", ApiKey.DELETE_GROUPS, 2, groups_names=("closed-kept", "open-none"))
    assert {each.group_id: each.error_code for each in deleted.results}["closed-kept"] is DENIED
    assert "closed-kept" in {
        group.group_id for group in guarded.call("root", "list groups", ApiKey.LIST_GROUPS, 5).groups
    }
