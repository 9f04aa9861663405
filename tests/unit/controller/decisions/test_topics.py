"""Decisions on new and deleted topics: Kafka's codes, messages and records."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest

from crabka.config.java_classes import LOCAL_TIERED_STORAGE
from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.controller.decisions.topics import MAX_PARTITIONS_PER_REQUEST, TopicDefaults, create_topics, delete_topics
from crabka.ids import ZERO_UUID
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import ClearElrRecord, ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from crabka.metadata.requests import WantedTopic
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster, defaults, with_topic
from tests.support.recorded.metadata_logs import SINGLE, segments, stored_records

OTHER_CHARACTERS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
TOO_FEW_BROKERS = (
    "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
    "only 1 broker(s) are registered or some brokers have all their log directories cordoned."
)


def refused(image: MetadataImage, topic: WantedTopic) -> tuple[ErrorCode, str | None]:
    outcome = create_topics(image, [topic], defaults())
    assert outcome.records == []
    verdict = outcome.result[topic.name].verdict
    return verdict.error_code, verdict.message


def test_a_topic_becomes_topic_configs_and_partitions_in_this_order() -> None:
    wanted = WantedTopic("t", 2, 1, configs={"retention.ms": "5", "min.insync.replicas": "1"})
    outcome = create_topics(cluster(1), [wanted], defaults())
    kinds = [type(record) for record in outcome.records]
    assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, ClearElrRecord, PartitionRecord, PartitionRecord]
    created = outcome.result["t"]
    assert (created.verdict.error_code, created.partition_count, created.replication_factor) == (ErrorCode.none, 2, 1)
    partition = outcome.records[-1]
    assert (partition.partition_id, partition.replicas, partition.isr, partition.leader) == (1, (1,), (1,), 1)
    assert (partition.leader_epoch, partition.directories) == (0, (uuid.UUID(int=1001),))


def golden_creation(name: str) -> list[Any]:
    """Return the records with which Kafka created a topic."""
    messages = [record.message for path in segments(SINGLE) for record in stored_records(path)]
    start = next(i for i, m in enumerate(messages) if isinstance(m, TopicRecord) and m.name == name)
    rest = takewhile(lambda m: isinstance(m, ConfigRecord | ClearElrRecord | PartitionRecord), messages[start + 1 :])
    return [messages[start], *rest]


@pytest.mark.parametrize("name", ["plain", "configured", "compacted-after", "trimmed"])
def test_the_records_are_those_of_kafka(name: str) -> None:
    golden = golden_creation(name)
    configs = {record.name: record.value for record in golden if isinstance(record, ConfigRecord)}
    partitions = [record for record in golden if isinstance(record, PartitionRecord)]
    topic_id = golden[0].topic_id
    # A broker with two log dirs reports later which one it chose, as the recorded one did.
    image = applied(
        cluster(),
        _two_dirs_registration(),
    )
    fixed = TopicDefaults(1, 1, defaults().rng, lambda: topic_id)
    outcome = create_topics(image, [WantedTopic(name, len(partitions), 1, configs=configs)], fixed)
    assert outcome.records == golden


def _two_dirs_registration() -> list[Any]:
    from tests.support.quorum.images import register_broker, registration, unfence_broker

    dirs = (uuid.UUID(int=2001), uuid.UUID(int=2002))
    fenced = register_broker(cluster(), registration(1, dirs), broker_epoch=1).records
    return [*fenced, *unfence_broker(applied(cluster(), fenced), 1).records]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        ("..", "Topic name is invalid: '.' or '..' is not allowed"),
        ("a b", f"Topic name is invalid: 'a b' {OTHER_CHARACTERS}"),
    ],
)
def test_illegal_names(name: str, message: str) -> None:
    assert refused(cluster(1), WantedTopic(name)) == (ErrorCode.invalid_topic_exception, message)


def test_a_topic_that_exists() -> None:
    image = with_topic(cluster(1), "t")
    assert refused(image, WantedTopic("t")) == (ErrorCode.topic_already_exists, "Topic 't' already exists.")


def test_names_that_would_share_a_metric() -> None:
    image = with_topic(cluster(1), "a.b")
    assert refused(image, WantedTopic("a_b")) == (
        ErrorCode.invalid_topic_exception,
        "Topic 'a_b' collides with existing topic: a.b",
    )
    outcome = create_topics(cluster(1), [WantedTopic("x.y"), WantedTopic("x_y")], defaults())
    assert outcome.result["x_y"].verdict.error_code is ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            WantedTopic("t", 0, 1),
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            WantedTopic("t", 1, 0),
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            WantedTopic("t", 1, 2),
            ErrorCode.invalid_replication_factor,
            TOO_FEW_BROKERS,
        ),
        (
            WantedTopic("t", MAX_PARTITIONS_PER_REQUEST + 1, 1),
            ErrorCode.policy_violation,
            "Excessively large number of partitions per request; the limit is 10000.",
        ),
        (
            WantedTopic("t", 1, -1, assignments=[(0, [1])]),
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            WantedTopic("t", -1, 1, assignments=[(0, [1])]),
            ErrorCode.invalid_request,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            WantedTopic("t", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.invalid_replica_assignment,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            WantedTopic("t", assignments=[(1, [1])]),
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            WantedTopic("t", assignments=[(0, [7])]),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            WantedTopic("t", assignments=[(0, [])]),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            WantedTopic("t", assignments=[(0, [1, 1])]),
            ErrorCode.invalid_replica_assignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
    ],
)
def test_what_cannot_be_made(wanted: WantedTopic, code: ErrorCode, message: str) -> None:
    assert refused(cluster(1), wanted) == (code, message)


def test_a_bad_setting_is_reported_in_kafkas_words() -> None:
    code, message = refused(cluster(1), WantedTopic("t", configs={"retention.ms": "x"}))
    assert code is ErrorCode.invalid_config
    assert message is not None
    assert message.startswith("Invalid value x for configuration retention.ms")


def test_chosen_replicas_are_kept() -> None:
    wanted = WantedTopic("t", assignments=[(1, [2, 1]), (0, [1, 2])])
    outcome = create_topics(cluster(1, 2), [wanted], defaults())
    assert [record.replicas for record in outcome.records if isinstance(record, PartitionRecord)] == [(1, 2), (2, 1)]
    uneven = WantedTopic("t", assignments=[(0, [1, 2]), (1, [1])])
    assert refused(cluster(1, 2), uneven)[0] is ErrorCode.invalid_replica_assignment


def test_a_repeated_name_is_refused_once() -> None:
    outcome = create_topics(cluster(1), [WantedTopic("t"), WantedTopic("t"), WantedTopic("u")], defaults())
    assert list(outcome.result) == ["t", "u"]
    assert outcome.result["t"].verdict.message == "Duplicate topic name."
    assert outcome.result["t"].verdict.error_code is ErrorCode.invalid_request
    assert outcome.result["u"].verdict.error_code is ErrorCode.none


def test_the_limit_of_partitions_holds_for_the_whole_request() -> None:
    wanted = [WantedTopic("a", 6000, 1), WantedTopic("b", 6000, 1), WantedTopic("c", 4000, 1)]
    results = create_topics(cluster(1), wanted, defaults()).result
    codes = [results[name].verdict.error_code for name in "abc"]
    assert codes == [ErrorCode.none, ErrorCode.policy_violation, ErrorCode.none]


def test_validation_alone_makes_no_records() -> None:
    outcome = create_topics(cluster(1), [WantedTopic("t")], defaults(), validate_only=True)
    assert outcome.records == []
    assert outcome.result["t"].verdict.error_code is ErrorCode.none


def test_an_id_never_looks_like_an_option() -> None:
    dashed, fine = uuid.UUID(bytes=b"\xf8" + bytes(15)), uuid.UUID(int=5)
    ids = iter([dashed, fine])
    made = TopicDefaults(1, 1, defaults().rng, lambda: next(ids))
    assert create_topics(cluster(1), [WantedTopic("t")], made).result["t"].topic_id == fine


def test_deletion_by_name_and_by_id() -> None:
    image = with_topic(with_topic(cluster(1), "a"), "b")
    topics = image.topics.by_name
    outcome = delete_topics(image, [("a", ZERO_UUID), (None, topics["b"].topic_id)], enabled=True)
    assert outcome.records == [RemoveTopicRecord(topic_id=topics[name].topic_id) for name in "ab"]
    assert not applied(image, outcome.records).topics.by_name


@pytest.mark.parametrize(
    ("name", "topic_id", "code"),
    [
        ("nope", ZERO_UUID, ErrorCode.unknown_topic_or_partition),
        (None, uuid.UUID(int=9), ErrorCode.unknown_topic_id),
        (None, ZERO_UUID, ErrorCode.invalid_request),
        ("a", uuid.UUID(int=9), ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_deleted(name: str | None, topic_id: uuid.UUID, code: ErrorCode) -> None:
    image = with_topic(cluster(1), "a")
    outcome = delete_topics(image, [(name, topic_id)], enabled=True)
    assert outcome.records == []
    assert [each.verdict.error_code for each in outcome.result] == [code]


def test_a_topic_is_deleted_once() -> None:
    image = with_topic(cluster(1), "a")
    outcome = delete_topics(image, [("a", ZERO_UUID), ("a", ZERO_UUID)], enabled=True)
    assert len(outcome.records) == 1
    assert [each.verdict.error_code for each in outcome.result] == [ErrorCode.none, ErrorCode.invalid_request]


def test_deletion_may_be_disabled() -> None:
    outcome = delete_topics(with_topic(cluster(1), "a"), [("a", ZERO_UUID)], enabled=False)
    assert outcome.records == []
    assert outcome.result[0].verdict.error_code is ErrorCode.topic_deletion_disabled


def test_a_manual_assignment_needs_a_replica_that_can_lead() -> None:
    image = cluster(1, 2, fenced=[2])
    assert refused(image, WantedTopic("t", assignments=[(0, [1]), (1, [2])])) == (
        ErrorCode.invalid_replica_assignment,
        (
            "All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled "
            "shutdown."
        ),
    )


def test_fenced_replicas_of_a_new_partition_are_not_in_sync() -> None:
    image = cluster(1, 2, 3, fenced=[1])
    outcome = create_topics(image, [WantedTopic("t", assignments=[(0, [1, 3, 2])])], defaults())
    partition = outcome.records[-1]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 3, 2), (3, 2), 3)


def with_tier(*, enabled: bool) -> TopicDefaults:
    properties = one_node_properties("/d1", "h", 9092)
    if enabled:
        properties = {
            **properties,
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": LOCAL_TIERED_STORAGE,
        }
    server, _ = ServerConfig.from_properties(properties)
    return replace(defaults(), server=server)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("t", {"cleanup.policy": "compact"}, "Remote log storage only supports topics with cleanup.policy=delete"),
        ("t", {"retention.ms": "5", "local.retention.ms": "6"}, "Value must not be more than retention.ms"),
        ("t", {"remote.log.copy.disable": "true", "local.retention.ms": "1"}, "When `remote.log.copy.disable` is set"),
        ("__remote_log_metadata", {}, "not supported for the internal topic"),
    ],
)
def test_a_tiered_topic_is_created_by_the_rules(name: str, settings: dict[str, str], message: str) -> None:
    configs = {"remote.storage.enable": "true", **settings}
    outcome = create_topics(cluster(1), [WantedTopic(name, configs=configs)], with_tier(enabled=True))
    verdict = outcome.result[name].verdict
    assert verdict.error_code is ErrorCode.invalid_config
    assert message in (verdict.message or "")
    assert outcome.records == []


def test_a_tiered_topic_needs_a_tier() -> None:
    wanted = WantedTopic("t", configs={"remote.storage.enable": "true"})
    refusal = create_topics(cluster(1), [wanted], with_tier(enabled=False)).result["t"].verdict
    assert refusal.error_code is ErrorCode.invalid_config
    assert refusal.message == (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
    )
    created = create_topics(cluster(1), [wanted], with_tier(enabled=True))
    assert created.result["t"].verdict.error_code is ErrorCode.none
