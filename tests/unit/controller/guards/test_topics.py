"""Permissions to create, extend and delete topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.support.nodes.sim_node import row
from tests.support.security.calls import ACLS
from tests.support.security.guarded_node import GuardedNode, guarded_node

DENIED = ErrorCode.topic_authorization_failed


def of_dave(name: str, operation: Operation) -> Acl:
    return Acl(ResourceType.TOPIC, name, PatternType.PREFIXED, "User:dave", "*", operation, Permission.ALLOW)


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedNode]:
    dave = (of_dave("dave", Operation.CREATE), of_dave("seen", Operation.DESCRIBE), of_dave("dead", Operation.DELETE))
    with guarded_node(acls=(*ACLS, *dave)) as node:
        for name in ("seen", "dead", "hidden"):
            node.topic_ids[name] = node.sim.create_topic(name).topic_id
        yield node


def created(guarded: GuardedNode, user: str, *names: str) -> dict[str, tuple[ErrorCode, int, ErrorCode]]:
    topics = [
        row("CreatableTopic", name=name, num_partitions=3, replication_factor=1, assignments=(), configs=[])
        for name in names
    ]
    answer = guarded.ask(user, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=1000, validate_only=True)
    return {each.name: (each.error_code, each.num_partitions, each.topic_config_error_code) for each in answer.topics}


def test_counts_of_a_new_topic_are_for_those_who_may_describe_its_configs(guarded: GuardedNode) -> None:
    none = ErrorCode.none
    assert created(guarded, "alice", "open-1", "x") == {"open-1": (none, 3, none), "x": (DENIED, -1, none)}
    assert created(guarded, "dave", "dave-1") == {"dave-1": (none, -1, DENIED)}
    # By CREATE on the cluster, but the topic is denied to her.
    assert created(guarded, "carol", "x") == {"x": (none, -1, DENIED)}


def test_a_deletion_says_nothing_about_topics_that_the_client_may_not_see(guarded: GuardedNode) -> None:
    answer = guarded.ask(
        "dave", ApiKey.DELETE_TOPICS, 5, topic_names=("seen", "hidden", "absent", "seen-absent"), timeout=1000
    )
    codes = {each.name: each.error_code for each in answer.responses}
    assert codes == {
        "seen": DENIED,
        "hidden": DENIED,
        "absent": DENIED,
        "seen-absent": ErrorCode.unknown_topic_or_partition,
    }
    assert [each.name for each in answer.responses] == sorted(codes)


def test_names_of_topics_given_by_id_stay_secret(guarded: GuardedNode) -> None:
    topics = [row("DeleteTopicState", name=None, topic_id=guarded.topic_ids[name]) for name in ("seen", "hidden")]
    answer = guarded.ask("dave", ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=1000)
    assert {(each.name, each.topic_id): each.error_code for each in answer.responses} == {
        ("seen", guarded.topic_ids["seen"]): DENIED,
        (None, guarded.topic_ids["hidden"]): DENIED,
    }
    dead = [row("DeleteTopicState", name=None, topic_id=guarded.topic_ids["dead"])]
    answer = guarded.ask("dave", ApiKey.DELETE_TOPICS, 6, topics=dead, timeout=1000)
    assert [(each.name, each.error_code) for each in answer.responses] == [("dead", ErrorCode.none)]


def test_more_partitions_need_alter(guarded: GuardedNode) -> None:
    answer = guarded.call("alice", "create partitions", ApiKey.CREATE_PARTITIONS, 3)
    assert {each.name: each.error_code for each in answer.results} == {
        "open": ErrorCode.none,
        "closed": DENIED,
        "missing": DENIED,
    }
