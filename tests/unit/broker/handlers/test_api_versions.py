"""ApiVersions over the wire, compared with what Apache Kafka answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crabka.broker.api_table import SERVED
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, versions_of
from tests.support.recorded.files import GOLDEN


def ask(node: SimNode, version: int = 4, name: str = "sim", software: str = "1.0") -> Any:
    return node.ask(ApiKey.API_VERSIONS, version, client_software_name=name, client_software_version=software)


@pytest.mark.parametrize("version", versions_of(ApiKey.API_VERSIONS))
def test_every_version_lists_what_is_served(node: SimNode, version: int) -> None:
    answer = ask(node, version)
    assert answer.error_code is ErrorCode.none
    assert {each.api_key for each in answer.api_keys} == set(SERVED)


def test_the_versions_are_those_of_kafka(node: SimNode) -> None:
    golden = json.loads((GOLDEN / "api_versions.json").read_text())["broker"]["api_keys"]
    listed = {str(each.api_key): (each.min_version, each.max_version) for each in ask(node).api_keys}
    assert listed == {key: (golden[key]["min"], golden[key]["max"]) for key in listed}


@pytest.mark.parametrize("name", ["", "-x", "a b", "x-"])
def test_an_illegal_software_name_is_refused(node: SimNode, name: str) -> None:
    assert ask(node, name=name).error_code is ErrorCode.invalid_request
    assert ask(node, version=2, name=name).error_code is ErrorCode.none


def test_features_are_those_of_a_new_cluster(node: SimNode) -> None:
    answer = ask(node)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "metadata.version": 30,
        "transaction.version": 2,
    }
    assert answer.finalized_features_epoch >= 0


def test_a_minimum_of_0_is_hidden_below_version_4(node: SimNode) -> None:
    assert {each.name for each in ask(node, version=3).supported_features} == {"metadata.version"}
    assert "kraft.version" in {each.name for each in ask(node).supported_features}
