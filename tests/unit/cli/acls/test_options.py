"""Names of operations, principals and resources."""

from __future__ import annotations

import pytest

from crabka.cli.acls.options import Resource, operation_of, principal_of, resources_of, word_of
from crabka.errors import ConfigError
from crabka.security.acls import Operation, ResourceType


@pytest.mark.parametrize("text", ["DescribeConfigs", "describe_configs", "DESCRIBE-CONFIGS", "describeconfigs"])
def test_operations_are_understood_as_kafkas_tools_and_logs_write_them(text: str) -> None:
    assert operation_of(text) is Operation.DESCRIBE_CONFIGS


@pytest.mark.parametrize("text", ["reed", "any", "unknown", ""])
def test_an_unknown_operation_is_answered_with_all_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match=f"{text}: not an operation; there are All, Read, Write, .*TwoPhaseCommit"):
        operation_of(text)


def test_every_operation_is_read_as_it_is_written() -> None:
    for operation in Operation:
        if operation > Operation.ANY:
            assert operation_of(word_of(operation)) is operation


def test_a_principal_has_a_type() -> None:
    assert principal_of("User:CN=a:b") == "User:CN=a:b"
    with pytest.raises(ConfigError, match="alice: not a principal; write User:alice"):
        principal_of("alice")


def test_resources_are_those_of_all_options() -> None:
    assert resources_of(["a"], None, ["t"], cluster=True) == [
        Resource(ResourceType.TOPIC, "a"),
        Resource(ResourceType.TRANSACTIONAL_ID, "t"),
        Resource(ResourceType.CLUSTER, "kafka-cluster"),
    ]
