"""What a client sees of topics."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.support.nodes.sim_node import row
from tests.support.security.calls import ACLS
from tests.support.security.guarded_node import GuardedNode, guarded_node

NO_OPERATIONS = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
DENIED = ErrorCode.topic_authorization_failed


def seen(guarded: GuardedNode, user: str, version: int = 12) -> set[str]:
    answer = guarded.call(user, "metadata of all", ApiKey.METADATA, version)
    return {topic.name for topic in answer.topics}


def test_all_topics_are_those_that_may_be_described(guarded: GuardedNode) -> None:
    for version in (0, 1, 12):
        assert seen(guarded, "alice", version) == {"open"}
        assert seen(guarded, "bob", version) == set()
        assert seen(guarded, "root", version) > {"open", "closed"}


def test_a_topic_named_by_id_keeps_its_name_secret(guarded: GuardedNode) -> None:
    topics = [row("MetadataRequestTopic", name=None, topic_id=guarded.topic_ids["closed"])]
    answer = guarded.ask("alice", ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False, **NO_OPERATIONS)
    (found,) = answer.topics
    assert (found.error_code, found.name, found.topic_id) == (DENIED, None, guarded.topic_ids["closed"])


def test_missing_topics_are_only_created_for_those_who_may() -> None:
    create = Acl(ResourceType.TOPIC, "made", PatternType.PREFIXED, "User:dave", "*", Operation.CREATE, Permission.ALLOW)
    see = create._replace(name="*", pattern_type=PatternType.LITERAL, operation=Operation.DESCRIBE)
    with guarded_node({"auto.create.topics.enable": "true"}, (*ACLS, create, see)) as guarded:
        topics = [row("MetadataRequestTopic", name=name) for name in ("made-1", "other")]
        answer = guarded.ask("dave", ApiKey.METADATA, 8, topics=topics, allow_auto_topic_creation=True, **NO_OPERATIONS)
        assert {topic.name: topic.error_code for topic in answer.topics}["other"] is DENIED
        assert {"made-1", "other"} & set(guarded.sim.context.image.topics.by_name) == {"made-1"}


def test_operations_are_those_of_the_user(guarded: GuardedNode) -> None:
    answer = guarded.call("carol", "metadata", ApiKey.METADATA, 9)
    operations = {topic.name: topic.topic_authorized_operations for topic in answer.topics}
    assert operations["closed"] == 1 << Operation.DESCRIBE
    assert answer.cluster_authorized_operations & 1 << Operation.ALTER
    assert guarded.call("bob", "metadata", ApiKey.METADATA, 9).cluster_authorized_operations == 0


def test_pages_of_partitions_have_only_visible_topics(guarded: GuardedNode) -> None:
    answer = guarded.call("alice", "describe all partitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    assert [topic.name for topic in answer.topics] == ["open"]
    assert guarded.call("bob", "describe all partitions", ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0).topics == ()
