"""Java class names in properties files."""

from __future__ import annotations

import pytest

from crabka.config.java_classes import LOCAL_TIERED_STORAGE, assignor_name, check_java_class
from crabka.errors import ConfigError


def test_class_that_crabka_stands_in_for_is_accepted() -> None:
    check_java_class("remote.log.storage.manager.class.name", LOCAL_TIERED_STORAGE)
    check_java_class("metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",))
    check_java_class("metric.reporters", ())
    check_java_class("create.topic.policy.class.name", None)
    check_java_class("num.partitions", 3)


@pytest.mark.parametrize("name", ["create.topic.policy.class.name", "remote.log.storage.manager.class.name"])
def test_foreign_class_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}: Crabka cannot run the Java class com\.example\.Mine"):
        check_java_class(name, "com.example.Mine")


def test_storage_of_the_tier_may_be_a_python_class_and_nothing_else_may() -> None:
    check_java_class("remote.log.storage.manager.class.name", "package.module:Class")
    with pytest.raises(ConfigError, match=r"package\.module:Class"):
        check_java_class("remote.log.metadata.manager.class.name", "package.module:Class")


def test_foreign_class_in_a_list_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.Assignor"):
        check_java_class("group.consumer.assignors", ("uniform", "com.example.Assignor"))


def test_assignor_class_has_a_short_name() -> None:
    assert assignor_name("org.apache.kafka.coordinator.group.assignor.RangeAssignor") == "range"
    assert assignor_name("uniform") == "uniform"
