"""Decisions on dynamic configs."""

from __future__ import annotations

import pytest

from crabka.config.alter import ConfigOp
from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.controller.decisions.configs import alter_configs
from crabka.metadata.configs import ConfigResource
from crabka.metadata.features import CORDONED_DIRECTORIES_LEVEL
from crabka.metadata.records import ClearElrRecord, ConfigRecord
from crabka.metadata.requests import ResourceChange
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster, with_topic

SERVER, _ = ServerConfig.from_properties(one_node_properties("/d1", "h", 9092))
IMAGE = with_topic(cluster(1), "t")
TOPIC = ConfigResource(2, "t")


def test_changes_become_records() -> None:
    change = ResourceChange(TOPIC, [ConfigOp("retention.ms", 0, "5")])
    outcome = alter_configs(IMAGE, [change], SERVER)
    assert outcome.records == [
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    ]
    changed = applied(IMAGE, outcome.records)
    assert changed.configs.get(2, "t") == {"retention.ms": "5"}
    removed = alter_configs(changed, [ResourceChange(TOPIC, [ConfigOp("retention.ms", 1, None)])], SERVER)
    assert applied(changed, removed.records).configs.get(2, "t") == {}


def test_a_replacement_removes_what_it_does_not_name() -> None:
    image = applied(IMAGE, [ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5")])
    outcome = alter_configs(image, [ResourceChange(TOPIC, replacement={"segment.ms": "7"})], SERVER)
    assert applied(image, outcome.records).configs.get(2, "t") == {"segment.ms": "7"}


def test_a_new_minimum_isr_clears_eligible_leaders() -> None:
    image = with_topic(cluster(1, features={"eligible.leader.replicas.version": 1}), "t")
    topic = ResourceChange(TOPIC, [ConfigOp("min.insync.replicas", 0, "2")])
    assert alter_configs(image, [topic], SERVER).records[-1] == ClearElrRecord(topic_name="t")
    default = ResourceChange(ConfigResource(4, ""), [ConfigOp("min.insync.replicas", 0, "2")])
    assert alter_configs(image, [default], SERVER).records[-1] == ClearElrRecord(topic_name="")


@pytest.mark.parametrize(
    ("resource", "key", "code"),
    [
        (ConfigResource(2, "nope"), "retention.ms", ErrorCode.unknown_topic_or_partition),
        (ConfigResource(2, ""), "retention.ms", ErrorCode.invalid_request),
        (ConfigResource(4, "9"), "message.max.bytes", ErrorCode.broker_id_not_registered),
        (ConfigResource(4, "x"), "message.max.bytes", ErrorCode.invalid_request),
        (ConfigResource(2, "t"), "nope", ErrorCode.invalid_config),
        (ConfigResource(77, "t"), "nope", ErrorCode.invalid_request),
    ],
)
def test_what_cannot_change(resource: ConfigResource, key: str, code: ErrorCode) -> None:
    outcome = alter_configs(IMAGE, [ResourceChange(resource, [ConfigOp(key, 0, "1")])], SERVER)
    assert outcome.records == []
    assert [verdict.error_code for verdict in outcome.result] == [code]


def test_a_resource_named_twice_is_refused_and_others_are_not() -> None:
    twice = ResourceChange(TOPIC, [ConfigOp("retention.ms", 0, "5")])
    other = ResourceChange(ConfigResource(4, "1"), [ConfigOp("message.max.bytes", 0, "100")])
    outcome = alter_configs(IMAGE, [twice, other, twice], SERVER)
    assert [verdict.error_code for verdict in outcome.result] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    assert len(outcome.records) == 1


def test_validation_alone_makes_no_records() -> None:
    change = ResourceChange(TOPIC, [ConfigOp("retention.ms", 0, "5")])
    assert alter_configs(IMAGE, [change], SERVER, validate_only=True).records == []


def test_client_metrics_are_a_resource_that_comes_with_its_first_setting_and_goes_with_its_last() -> None:
    subscription = ConfigResource(16, "latency")
    ops = [ConfigOp("interval.ms", 0, "5000"), ConfigOp("match", 0, "client_id=a.*")]
    image = applied(IMAGE, alter_configs(IMAGE, [ResourceChange(subscription, ops)], SERVER).records)
    assert image.configs.get(16, "latency") == {"interval.ms": "5000", "match": "client_id=a.*"}
    gone = [ConfigOp(op.name, 1, None) for op in ops]
    image = applied(image, alter_configs(image, [ResourceChange(subscription, gone)], SERVER).records)
    assert subscription not in image.configs.resources


@pytest.mark.parametrize(
    ("name", "key", "value", "code"),
    [
        ("", "interval.ms", "5000", ErrorCode.invalid_request),
        ("x", "interval.ms", "5", ErrorCode.invalid_request),
        ("x", "nope", "1", ErrorCode.invalid_request),
        ("x", "match", "nobody=1", ErrorCode.invalid_config),
    ],
)
def test_refused_client_metrics(name: str, key: str, value: str, code: ErrorCode) -> None:
    change = ResourceChange(ConfigResource(16, name), [ConfigOp(key, 0, value)])
    outcome = alter_configs(IMAGE, [change], SERVER)
    assert (outcome.records, outcome.result[0].error_code) == ([], code)


def test_log_dirs_of_another_broker_are_cordoned_as_that_one_said() -> None:
    change = ResourceChange(ConfigResource(4, "2"), [ConfigOp("cordoned.log.dirs", 0, "/elsewhere")])
    outcome = alter_configs(cluster(1, 2), [change], SERVER)
    assert [verdict.error_code for verdict in outcome.result] == [ErrorCode.none]


def test_log_dirs_are_not_cordoned_where_the_metadata_has_no_room_for_it() -> None:
    change = ResourceChange(ConfigResource(4, "1"), [ConfigOp("cordoned.log.dirs", 0, "/d1")])
    older = cluster(1, features={"metadata.version": CORDONED_DIRECTORIES_LEVEL - 1})
    (verdict,) = alter_configs(older, [change], SERVER).result
    assert verdict.error_code is ErrorCode.invalid_config
    assert "requires metadata.version >= 4.3-IV0" in str(verdict.message)
