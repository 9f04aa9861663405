"""From subscriptions to assignments."""

from __future__ import annotations

import dataclasses

from crabka.broker.groups.consumer.records import PartitionMetadataRecord
from crabka.broker.groups.consumer.state import ConsumerGroupState
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import SETTINGS, ConsumerCore, catalog_of, owned, topic_id

T, U = topic_id(0), topic_id(1)


def test_new_partitions_and_deleted_topics_begin_an_epoch() -> None:
    core = ConsumerCore(catalog_of(t=1, u=1))
    core.beat("a", 0, topic_names=("t", "u"))
    core.catalog.put("t", T, [[], []])
    assert owned(core.beat("a", 2)) == {T: frozenset({0, 1}), U: frozenset({0})}
    core.catalog.remove(U)
    core.beat("a", 3)
    assert owned(core.beat("a", 3, owned={T: frozenset({0, 1})}, rebalance_timeout_ms=1, topic_names=("t", "u"))) == {
        T: frozenset({0, 1})
    }
    assert core.group.data.epoch == 4


def test_topics_of_others_begin_no_epoch() -> None:
    core = ConsumerCore(catalog_of(t=1, u=1))
    core.beat("a", 0)
    core.catalog.put("u", U, [[], []])
    assert core.beat("a", 2).member_epoch == 2
    assert core.group.data.epoch == 2


def test_a_pattern_is_matched_when_topics_change_but_not_too_often() -> None:
    core = ConsumerCore(catalog_of(t1=1, x=1))
    assert owned(core.beat("a", 0, topic_regex="t.*")) == {T: frozenset({0})}
    core.catalog.put("t2", topic_id(9), [[]])
    core.pass_time(9_000)
    assert core.beat("a", 2).assignment is None
    core.pass_time(1_000)
    assert owned(core.beat("a", 2)) == {T: frozenset({0}), topic_id(9): frozenset({0})}
    core.restart()
    assert core.group.data.patterns["t.*"].topics == ("t1", "t2")


def test_a_pattern_goes_with_its_last_subscriber() -> None:
    core = ConsumerCore(catalog_of(t=1))
    core.beat("a", 0, topic_regex="t")
    core.beat("b", 0, topic_regex="t")
    core.beat("a", -1)
    assert core.group.data.patterns
    core.beat("b", -1)
    assert not core.group.data.patterns


def test_assignments_are_not_made_more_often_than_the_interval_allows() -> None:
    core = ConsumerCore(settings=dataclasses.replace(SETTINGS, assignment_interval_ms=1_000))
    core.beat("a", 0)
    second = core.beat("b", 0)
    assert (second.error_code, second.member_epoch, owned(second)) == (ErrorCode.none, 2, {})
    assert core.group.state is ConsumerGroupState.ASSIGNING
    core.pass_time(1_000)
    assert core.beat("a", 2, owned={T: frozenset(range(4))}).assignment is not None
    assert core.group.data.assignment_epoch == 3


def test_an_assignor_that_is_not_offered_any_more_is_not_used() -> None:
    core = ConsumerCore(settings=dataclasses.replace(SETTINGS, assignors=("range",)))
    assert owned(core.beat("a", 0, server_assignor="uniform")) == {T: frozenset(range(4))}


def test_what_old_brokers_kept_of_topics_is_removed_with_the_next_epoch() -> None:
    core = ConsumerCore()
    core.group.replay(PartitionMetadataRecord("g", deleted=False))
    core.beat("a", 0)
    assert not core.group.data.has_partition_metadata
    assert PartitionMetadataRecord("g") in core.records()
