"""DescribeConfigs over the wire; what a setting's layers are is tested with the configs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, row, versions_of
from tests.support.recorded.files import GOLDEN

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def ask(node: SimNode, kind: int, name: str, *, keys: list[str] | None = None, version: int = 4, **options: Any) -> Any:
    resource = row("DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=keys)
    fields = {"include_synonyms": False, "include_documentation": False, **options}
    return node.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], **fields).results[0]


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CONFIGS))
def test_every_version_describes_a_topic(node: SimNode, version: int) -> None:
    node.create_topic("t", retention_ms="5")
    answer = ask(node, TOPIC, "t", version=version)
    assert answer.error_code is ErrorCode.none
    found = {each.name: (each.value, each.config_source, each.read_only) for each in answer.configs}
    assert found["retention.ms"] == ("5", 1, False)
    golden = json.loads((GOLDEN / "topic_configs.json").read_text())
    assert {name for name in found if not name.startswith("crabka.")} == set(golden)


def test_single_keys_with_synonyms_and_documentation(node: SimNode) -> None:
    node.create_topic("t", retention_ms="5")
    answer = ask(node, TOPIC, "t", keys=["retention.ms"], include_synonyms=True, include_documentation=True)
    (config,) = answer.configs
    assert next((each.name, each.value, each.source) for each in config.synonyms) == ("retention.ms", "5", 1)
    assert config.documentation


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [
        (BROKER, "1", "log.dirs"),
        (LOGGER, "1", "root"),
        (METRICS, "any", "interval.ms"),
        (GROUP, "any", "consumer.session.timeout.ms"),
    ],
)
def test_all_kinds_of_resources_are_described(node: SimNode, kind: int, name: str, key: str) -> None:
    answer = ask(node, kind, name)
    assert answer.error_code is ErrorCode.none
    assert key in {each.name for each in answer.configs}


def test_dynamic_settings_of_the_cluster_are_listed_alone(node: SimNode) -> None:
    node.set_configs(BROKER, "", log_cleaner_threads="2")
    found = {each.name: each.value for each in ask(node, BROKER, "").configs}
    assert found["log.cleaner.threads"] == "2"
    assert "log.dirs" not in found


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "a b", ErrorCode.invalid_topic_exception),
        (BROKER, "2", ErrorCode.invalid_request),
        (BROKER, "x", ErrorCode.invalid_request),
        (LOGGER, "2", ErrorCode.invalid_request),
        (METRICS, "", ErrorCode.invalid_request),
        (GROUP, "", ErrorCode.invalid_request),
        (99, "x", ErrorCode.invalid_request),
    ],
)
def test_what_is_not_there_is_reported(node: SimNode, kind: int, name: str, code: ErrorCode) -> None:
    answer = ask(node, kind, name)
    assert answer.error_code is code
    assert answer.error_message
    assert answer.configs == ()
