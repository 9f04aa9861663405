"""ListTransactions over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.transactions import NodeProducer
from tests.support.nodes.sim_node import SimNode, versions_of


def listed(node: SimNode, version: int = 2, **filters: Any) -> list[tuple[str, int, str]]:
    answer = ask(node, version, **filters)
    assert answer.error_code is ErrorCode.none
    return sorted((row.transactional_id, row.producer_id, row.transaction_state) for row in answer.transaction_states)


def ask(node: SimNode, version: int = 2, **filters: Any) -> Any:
    fields = {
        "state_filters": (),
        "producer_id_filters": (),
        "duration_filter": -1,
        "transactional_id_pattern": None,
        **filters,
    }
    return node.ask(ApiKey.LIST_TRANSACTIONS, version, **fields)


@pytest.fixture
def two(node: SimNode) -> list[NodeProducer]:
    node.create_topic("t")
    producers = [NodeProducer(node, name) for name in ("app-a", "app-b")]
    for producer in producers:
        producer.init()
    producers[1].add_by_broker()
    return producers


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_TRANSACTIONS))
def test_all_ids_are_listed(node: SimNode, two: list[NodeProducer], version: int) -> None:
    first, second = two
    everything = [("app-a", first.producer_id, "Empty"), ("app-b", second.producer_id, "Ongoing")]
    assert listed(node, version) == everything
    assert listed(node, version, state_filters=["Ongoing"]) == everything[1:]
    assert listed(node, version, producer_id_filters=[first.producer_id]) == everything[:1]


def test_unknown_states_are_named(node: SimNode, two: list[NodeProducer]) -> None:
    answer = ask(node, state_filters=["ongoing", "Ongoing"])
    assert answer.unknown_state_filters == ("ongoing",)
    assert len(answer.transaction_states) == 1
    assert ask(node, state_filters=["nothing"]).transaction_states == ()


def test_only_what_is_open_for_long(node: SimNode, two: list[NodeProducer]) -> None:
    node.advance(1000)
    assert [name for name, _, _ in listed(node, state_filters=["Ongoing"], duration_filter=900)] == ["app-b"]
    assert listed(node, state_filters=["Ongoing"], duration_filter=5000) == []


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("app-.*", ["app-a", "app-b"]), ("app", []), (".*-[b-z]", ["app-b"]), ("", ["app-a", "app-b"])],
)
def test_a_pattern_is_about_the_whole_id(
    node: SimNode, two: list[NodeProducer], pattern: str, names: list[str]
) -> None:
    assert [name for name, _, _ in listed(node, transactional_id_pattern=pattern)] == names


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1"])
def test_patterns_that_are_no_good_are_refused(node: SimNode, pattern: str) -> None:
    assert ask(node, transactional_id_pattern=pattern).error_code is ErrorCode.invalid_regular_expression


def test_nothing_is_listed_while_ids_are_loaded(node: SimNode, two: list[NodeProducer]) -> None:
    node.context.transactions.find("app-a")[0].is_active = False
    assert ask(node).error_code is ErrorCode.coordinator_load_in_progress
