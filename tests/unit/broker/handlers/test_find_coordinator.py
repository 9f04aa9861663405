"""FindCoordinator over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.peer_brokers import FakeController
from tests.support.nodes.sim_node import SimNode, versions_of


def ask(node: SimNode, version: int, key_type: int = 0, key: str = "g") -> Any:
    if version < 4:
        return node.ask(ApiKey.FIND_COORDINATOR, version, key=key, key_type=key_type)
    (found,) = node.ask(ApiKey.FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=[key]).coordinators
    assert found.key == key
    return found


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_the_offsets_topic_is_made_on_first_use(node: SimNode, version: int) -> None:
    found = ask(node, version)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.none, 1, "node", 9092)
    topic = node.context.image.topics.by_name["__consumer_offsets"]
    assert len(topic.partitions) == 50
    assert node.context.partitions.by_name("__consumer_offsets", 0).log.config.cleanup_policy == {"compact"}


@pytest.mark.parametrize("version", [each for each in versions_of(ApiKey.FIND_COORDINATOR) if each])
def test_the_topic_of_transactions_is_made_on_first_use(node: SimNode, version: int) -> None:
    found = ask(node, version, 1)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.none, 1, "node", 9092)
    assert len(node.context.image.topics.by_name["__transaction_state"].partitions) == 50
    assert "__consumer_offsets" not in node.context.image.topics.by_name


def test_key_types_are_checked(node: SimNode) -> None:
    assert ask(node, 5, 2).error_code is ErrorCode.invalid_request
    assert ask(node, 6, 2).error_code is ErrorCode.coordinator_not_available
    assert ask(node, 6, 3).error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("key_type", "setting"),
    [(0, "offsets.topic.replication.factor"), (1, "transaction.state.log.replication.factor")],
)
def test_a_replication_factor_that_cannot_be_had_is_logged_once(
    caplog: pytest.LogCaptureFixture, key_type: int, setting: str
) -> None:
    with SimNode({setting: "3"}) as node:
        for _ in range(2):
            assert ask(node, 4, key_type).error_code is ErrorCode.coordinator_not_available
    assert sum(setting in record.getMessage() for record in caplog.records) == 1


def test_a_client_comes_back_while_the_controller_makes_the_topic(node: SimNode) -> None:
    controller = FakeController(lambda _api_key, _body, _types: None)
    controller.open.clear()
    node.context.auto_creation._controller = controller
    answer = node.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["id"])
    assert answer.coordinators[0].error_code is ErrorCode.coordinator_not_available
    # Nothing is wrong with the settings.
    assert not node.context.transactions.logged_missing_topic
    assert controller.names() == [["__transaction_state"]]
