"""Numbers of the admin protocol."""

from __future__ import annotations

from crabka.clients.admin.admin_types import ConfigChange, ConfigOperation, NewTopic, ResourceType


def test_enums_have_kafkas_numbers() -> None:
    assert [kind.value for kind in ResourceType] == [2, 4, 8, 16, 32]
    assert [operation.value for operation in ConfigOperation] == [0, 1, 2, 3]


def test_defaults_leave_the_choice_to_the_broker() -> None:
    topic = NewTopic("t")
    assert (topic.partition_count, topic.replication_factor, topic.configs) == (-1, -1, {})
    assert ConfigChange("retention.ms", "1").operation is ConfigOperation.SET
