"""Permissions of producers."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.security.guarded_node import GuardedNode


def test_a_producer_id_is_given_to_those_who_may_write_some_topic(guarded: GuardedNode) -> None:
    def given(user: str) -> ErrorCode:
        code: ErrorCode = guarded.call(user, "init idempotent", ApiKey.INIT_PRODUCER_ID, 4).error_code
        return code

    assert given("alice") is ErrorCode.none
    # By IDEMPOTENT_WRITE, which is among all operations on the cluster.
    assert given("carol") is ErrorCode.none
    assert given("bob") is ErrorCode.cluster_authorization_failed


def test_one_refused_topic_keeps_all_partitions_out_of_a_transaction(guarded: GuardedNode) -> None:
    answer = guarded.call("alice", "add partitions", ApiKey.ADD_PARTITIONS_TO_TXN, 3)
    codes = {
        topic.name: topic.results_by_partition[0].partition_error_code for topic in answer.results_by_topic_v3_and_below
    }
    assert codes == {"open": ErrorCode.operation_not_attempted, "closed": ErrorCode.topic_authorization_failed}


def test_only_visible_transactions_are_listed(guarded: GuardedNode) -> None:
    for name in ("open-listed", "closed-listed"):
        guarded.ask(
            "root",
            ApiKey.INIT_PRODUCER_ID,
            4,
            transactional_id=name,
            transaction_timeout=1000,
            producer_id=-1,
            producer_epoch=-1,
        )
    listed = guarded.call("alice", "list transactions", ApiKey.LIST_TRANSACTIONS, 1)
    assert {each.transactional_id for each in listed.transaction_states} == {"open-listed"}
