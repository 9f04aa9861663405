"""Permissions of APIs with a row for each topic."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.security.guarded_node import GuardedNode

NONE, DENIED = ErrorCode.none, ErrorCode.topic_authorization_failed


def test_refused_topics_are_beside_the_others(guarded: GuardedNode) -> None:
    answer = guarded.call("alice", "list offsets", ApiKey.LIST_OFFSETS, 7)
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"open": NONE, "closed": DENIED, "missing": DENIED}
    # For a user who may describe all topics the others are what they are.
    answer = guarded.call("carol", "list offsets", ApiKey.LIST_OFFSETS, 7)
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"open": DENIED, "closed": NONE, "missing": ErrorCode.unknown_topic_or_partition}


def test_topics_named_by_id_are_refused_by_id(guarded: GuardedNode) -> None:
    answer = guarded.call("alice", "offset commit", ApiKey.OFFSET_COMMIT, 10)
    codes = {topic.topic_id: topic.partitions[0].error_code for topic in answer.topics}
    assert codes[guarded.topic_ids["open"]] is NONE
    assert codes[guarded.topic_ids["closed"]] is DENIED
    assert ErrorCode.unknown_topic_id in codes.values()
