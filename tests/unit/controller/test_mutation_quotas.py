"""Quotas on changes of topics (KIP-599): 11 partitions at once and one more each second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crabka.protocol.apis import ApiKey
from tests.support.nodes.sim_node import SimNode, row
from tests.support.quorum.quotas import alter

REFUSED = 89  # THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
def node() -> Iterator[SimNode]:
    with SimNode() as running:
        assert alter(running, {"client-id": "sim"}, {"controller_mutation_rate": 1.0}).error_code == 0
        yield running


def create(node: SimNode, *topics: tuple[str, int], version: int = 7) -> tuple[list[int], float]:
    rows = [
        row("CreatableTopic", name=name, num_partitions=count, replication_factor=1, assignments=(), configs=())
        for name, count in topics
    ]
    return _outcome(node.ask(ApiKey.CREATE_TOPICS, version, topics=rows, timeout=1000, validate_only=False), "topics")


def grow(node: SimNode, topic: str, count: int, version: int = 3) -> tuple[list[int], float]:
    rows = [row("CreatePartitionsTopic", name=topic, count=count, assignments=None)]
    answer = node.ask(ApiKey.CREATE_PARTITIONS, version, topics=rows, timeout=1000, validate_only=False)
    return _outcome(answer, "results")


def delete(node: SimNode, *topics: str, version: int = 5) -> tuple[list[int], float]:
    answer = node.ask(ApiKey.DELETE_TOPICS, version, topic_names=topics, timeout=1000)
    return _outcome(answer, "responses")


def _outcome(answer: Any, rows: str) -> tuple[list[int], float]:
    return [int(each.error_code) for each in getattr(answer, rows)], answer.throttle_time.total_seconds()


def test_what_is_above_the_quota_is_refused_and_waits_for_its_excess(node: SimNode) -> None:
    codes, wait_s = create(node, ("first", 14), ("second", 1))
    assert codes == [0, REFUSED]
    assert wait_s == pytest.approx(3.0, abs=0.1)
    # Its connection is not read for that time, and then nothing is owed.
    began = node.loop.time()
    assert create(node, ("second", 1))[0] == [0]
    assert node.loop.time() - began >= wait_s * 0.99


def test_growth_and_deletion_count_as_well(node: SimNode) -> None:
    assert create(node, ("t", 2)) == ([0], 0.0)
    assert grow(node, "t", 15)[0] == [0]
    assert grow(node, "t", 16)[0] == [REFUSED]
    node.advance(10_000)
    codes, wait_s = delete(node, "t")
    assert (codes, wait_s) == ([0], 0.0)
    assert create(node, ("next", 1))[0] == [REFUSED]


def test_an_old_client_is_not_refused_but_waits(node: SimNode) -> None:
    codes, wait_s = create(node, ("first", 14), ("second", 1), version=5)
    assert codes == [0, 0]
    assert wait_s == pytest.approx(4.0, abs=0.1)
    assert grow(node, "first", 15, version=2)[0] == [0]
    assert delete(node, "first", version=4)[0] == [0]


def test_what_is_refused_for_another_reason_costs_nothing(node: SimNode) -> None:
    create(node, ("t", 1))
    for _ in range(20):
        assert create(node, ("t", 10))[0] != [0]
    assert create(node, ("u", 9)) == ([0], 0.0)


def test_the_node_itself_is_not_limited(node: SimNode) -> None:
    """Topics of its own, such as that of the group offsets with its 50 partitions."""
    assert alter(node, {"user": None}, {"controller_mutation_rate": 0.001}).error_code == 0
    node.advance(100)
    for _ in range(100):
        answer = node.ask(ApiKey.FIND_COORDINATOR, 3, key="g", key_type=0)
        if answer.error_code == 0:
            break
        node.advance(100)
    assert answer.error_code == 0
