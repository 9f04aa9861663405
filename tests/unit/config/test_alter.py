"""Changes of settings are checked as Kafka checks them, and nothing is changed on a refusal."""

from __future__ import annotations

import pytest

from crabka.config.alter import (
    AlterableResource,
    AlterContext,
    AlterOp,
    ConfigOp,
    apply_ops,
    check_resource_name,
    replacement_ops,
)
from crabka.config.java_classes import LOCAL_TIERED_STORAGE
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.unit.config.nodes import server

TOPIC, BROKER, GROUP = AlterableResource.TOPIC, AlterableResource.BROKER, AlterableResource.GROUP
ON_TOPIC = AlterContext("topic", server())
ON_BROKER = AlterContext("1", server())
ON_ALL_BROKERS = AlterContext("", server())


def _set(name: str, value: str | None) -> ConfigOp:
    return ConfigOp(name, AlterOp.SET, value)


def test_set_and_delete_change_single_keys() -> None:
    existing = {"retention.ms": "1", "segment.ms": "2"}
    ops = [_set("retention.ms", "5"), ConfigOp("segment.ms", AlterOp.DELETE, None)]
    assert apply_ops(TOPIC, existing, ops, ON_TOPIC) == {"retention.ms": "5", "segment.ms": None}


def test_unchanged_topic_value_changes_nothing() -> None:
    assert apply_ops(TOPIC, {"retention.ms": "1"}, [_set("retention.ms", "1")], ON_TOPIC) == {}


def test_unchanged_broker_value_is_written_again_to_reload_it() -> None:
    ops = [_set("log.retention.ms", "1")]
    assert apply_ops(BROKER, {"log.retention.ms": "1"}, ops, ON_BROKER) == {"log.retention.ms": "1"}


def test_append_starts_from_the_default_and_adds_once() -> None:
    op = ConfigOp("cleanup.policy", AlterOp.APPEND, "compact,delete")
    assert apply_ops(TOPIC, {}, [op], ON_TOPIC) == {"cleanup.policy": "delete,compact"}


def test_subtract_removes_members() -> None:
    op = ConfigOp("cleanup.policy", AlterOp.SUBTRACT, "delete")
    assert apply_ops(TOPIC, {"cleanup.policy": "compact,delete"}, [op], ON_TOPIC) == {"cleanup.policy": "compact"}


def test_older_request_removes_what_it_does_not_name() -> None:
    ops = replacement_ops(["a", "b"], {"b": "2", "c": "3"})
    assert ops == [_set("b", "2"), _set("c", "3"), ConfigOp("a", AlterOp.DELETE, None)]


@pytest.mark.parametrize(
    ("resource_type", "ops", "context", "code", "message"),
    [
        (1, [], ON_TOPIC, ErrorCode.invalid_request, "Unknown resource type 1"),
        (TOPIC, [_set("a", "1")] * 2, ON_TOPIC, ErrorCode.invalid_request, "Error due to duplicate config keys"),
        (TOPIC, [_set("a", None)], ON_TOPIC, ErrorCode.invalid_request, "Null value not supported for : a"),
        (TOPIC, [ConfigOp("a", 9, "1")], ON_TOPIC, ErrorCode.invalid_request, "Unknown operations type 9"),
        (TOPIC, [_set("a", "1")], ON_TOPIC, ErrorCode.invalid_config, "Unknown topic config name: a"),
        (
            TOPIC,
            [_set("retention.ms", "x")],
            ON_TOPIC,
            ErrorCode.invalid_config,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            [ConfigOp("retention.ms", AlterOp.APPEND, "1")],
            ON_TOPIC,
            ErrorCode.invalid_config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            [_set("remote.storage.enable", "true")],
            ON_TOPIC,
            ErrorCode.invalid_config,
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
        (
            TOPIC,
            [_set("compression.type", "x" * 40000)],
            ON_TOPIC,
            ErrorCode.invalid_config,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            BROKER,
            [_set("num.partitions", "2")],
            ON_BROKER,
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            [_set("listeners", "PLAINTEXT://:1")],
            ON_ALL_BROKERS,
            ErrorCode.invalid_request,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            BROKER,
            [_set("log.retention.ms", "x")],
            ON_BROKER,
            ErrorCode.invalid_request,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            [_set("log.retention.ms", "0")],
            ON_BROKER,
            ErrorCode.invalid_request,
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            BROKER,
            [_set("ssl.keystore.location", "x")],
            ON_BROKER,
            ErrorCode.invalid_request,
            "Settings of security are changed in the file of a node here: [ssl.keystore.location]",
        ),
        (
            GROUP,
            [_set("consumer.session.timeout.ms", "1")],
            AlterContext("group", server()),
            ErrorCode.invalid_config,
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            AlterableResource.CLIENT_METRICS,
            [_set("interval.ms", "1")],
            AlterContext("subscription"),
            ErrorCode.invalid_request,
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            AlterableResource.CLIENT_METRICS,
            [_set("match", "a=b")],
            AlterContext("subscription"),
            ErrorCode.invalid_config,
            "Illegal client matching pattern: a=b",
        ),
    ],
)
def test_refusal_has_kafkas_code_and_words(
    resource_type: int, ops: list[ConfigOp], context: AlterContext, code: ErrorCode, message: str
) -> None:
    with pytest.raises(OperationError) as caught:
        apply_ops(resource_type, {}, ops, context)
    assert (caught.value.error_code, str(caught.value)) == (code, message)


def test_unknown_broker_key_may_belong_to_a_plugin() -> None:
    assert apply_ops(BROKER, {}, [_set("my.plugin.key", "1")], ON_BROKER) == {"my.plugin.key": "1"}
    assert apply_ops(BROKER, {}, [_set("leader.replication.throttled.rate", "1")], ON_ALL_BROKERS)


@pytest.mark.parametrize(
    ("name", "op", "message"),
    [
        ("1", _set("min.insync.replicas", "1"), "Broker-level min.insync.replicas cannot be altered"),
        (
            "",
            ConfigOp("min.insync.replicas", AlterOp.DELETE, None),
            "Cluster-level min.insync.replicas cannot be removed",
        ),
    ],
)
def test_eligible_leader_replicas_pin_the_minimum(name: str, op: ConfigOp, message: str) -> None:
    with pytest.raises(OperationError, match=message) as caught:
        apply_ops(BROKER, {"min.insync.replicas": "1"}, [op], AlterContext(name, server(), elr_enabled=True))
    assert caught.value.error_code is ErrorCode.invalid_config
    assert apply_ops(BROKER, {"min.insync.replicas": "1"}, [op], AlterContext(name, server()))


@pytest.mark.parametrize(
    ("resource_type", "name", "message"),
    [
        (TOPIC, "", "Default topic resources are not allowed."),
        (GROUP, "", "Default group resources are not allowed."),
        (AlterableResource.CLIENT_METRICS, "", "Subscription name can't be empty"),
        (BROKER, "one", "Unable to parse broker name as a base 10 number."),
        (BROKER, "-1", "Invalid negative broker ID."),
        (AlterableResource.BROKER_LOGGER, "", "Node id must be an integer, but it is: "),
    ],
)
def test_impossible_resource_names_are_refused(resource_type: int, name: str, message: str) -> None:
    with pytest.raises(OperationError) as caught:
        check_resource_name(resource_type, name)
    assert (caught.value.error_code, str(caught.value)) == (ErrorCode.invalid_request, message)


LOGGERS = AlterContext("1", server(), loggers=frozenset({"crabka.log"}))


def test_log_levels_are_set_and_unset() -> None:
    ops = [_set("crabka.log", "DEBUG"), _set("root", "WARN")]
    assert apply_ops(AlterableResource.BROKER_LOGGER, {}, ops, LOGGERS) == {"crabka.log": "DEBUG", "root": "WARN"}
    unset = [ConfigOp("crabka.log", AlterOp.DELETE, None)]
    assert apply_ops(AlterableResource.BROKER_LOGGER, {}, unset, LOGGERS) == {"crabka.log": None}


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (_set("nobody", "INFO"), "Logger nobody does not exist!"),
        (_set("root", "LOUD"), "Cannot set the log level of root to LOUD as it is not a supported log level."),
        (ConfigOp("root", AlterOp.DELETE, None), "Removing the log level of the root logger is not allowed"),
        (ConfigOp("root", AlterOp.APPEND, "INFO"), "APPEND operation is not allowed for the BROKER_LOGGER resource"),
    ],
)
def test_bad_log_levels_are_refused(op: ConfigOp, message: str) -> None:
    with pytest.raises(OperationError, match=message):
        apply_ops(AlterableResource.BROKER_LOGGER, {}, [op], LOGGERS)


def test_log_levels_of_another_node_are_refused() -> None:
    with pytest.raises(OperationError, match=r"Unexpected node id\. Expected 1, but received 2"):
        apply_ops(AlterableResource.BROKER_LOGGER, {}, [], LOGGERS._replace(resource_name="2"))


TIERED_NODE = server(
    remote_log_storage_system_enable="true", remote_log_storage_manager_class_name=LOCAL_TIERED_STORAGE
)
ON_TIERED_TOPIC = AlterContext("topic", TIERED_NODE)


def test_a_topic_enters_and_leaves_the_tier_by_the_rules() -> None:
    entered = apply_ops(TOPIC, {}, [_set("remote.storage.enable", "true")], ON_TIERED_TOPIC)
    assert entered == {"remote.storage.enable": "true"}
    existing = {"remote.storage.enable": "true"}
    for leave in (_set("remote.storage.enable", "false"), ConfigOp("remote.storage.enable", AlterOp.DELETE, None)):
        with pytest.raises(OperationError, match="It is invalid to disable remote storage") as caught:
            apply_ops(TOPIC, existing, [leave], ON_TIERED_TOPIC)
        assert caught.value.error_code is ErrorCode.invalid_config
        consent = _set("remote.log.delete.on.disable", "true")
        assert "remote.storage.enable" in apply_ops(TOPIC, existing, [leave, consent], ON_TIERED_TOPIC)


def test_a_replacement_without_the_tier_does_not_leave_it_unasked() -> None:
    existing = {"remote.storage.enable": "true", "retention.ms": "5"}
    ops = replacement_ops(existing, {"retention.ms": "6"})
    with pytest.raises(OperationError, match="It is invalid to disable remote storage"):
        apply_ops(TOPIC, existing, ops, ON_TIERED_TOPIC)


def test_a_tiered_topic_does_not_become_compacted() -> None:
    existing = {"remote.storage.enable": "true"}
    with pytest.raises(OperationError, match="Remote log storage only supports topics with"):
        apply_ops(TOPIC, existing, [_set("cleanup.policy", "compact")], ON_TIERED_TOPIC)


def test_internal_topics_do_not_enter_the_tier() -> None:
    context = AlterContext("__remote_log_metadata", TIERED_NODE)
    with pytest.raises(OperationError, match="internal topic __remote_log_metadata") as caught:
        apply_ops(TOPIC, {}, [_set("remote.storage.enable", "true")], context)
    assert caught.value.error_code is ErrorCode.invalid_config


def test_brokers_cannot_keep_more_on_their_disks_than_in_total() -> None:
    ops = [_set("log.local.retention.ms", "10"), _set("log.retention.ms", "5")]
    with pytest.raises(OperationError) as caught:
        apply_ops(BROKER, {}, ops, ON_ALL_BROKERS)
    assert caught.value.error_code is ErrorCode.invalid_request
    assert str(caught.value) == (
        "Invalid value 10 for configuration log.local.retention.ms: "
        "Value must not be more than log.retention.ms property value: 5"
    )
