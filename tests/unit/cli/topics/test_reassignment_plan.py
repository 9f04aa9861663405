"""Plans of reassignments: files, and spreading over brokers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.cli.topics.reassignment_plan import parse_plan, plan_as_json, plan_for_brokers, read_plan
from crabka.errors import ConfigError
from crabka.ids import TopicPartition

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def test_a_plan_goes_through_a_file(tmp_path: Path) -> None:
    plan = {T1: (2, 3), T0: (1,)}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_as_json(plan)))
    assert read_plan(str(path)) == plan


def test_kafkas_own_files_are_read() -> None:
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    assert parse_plan({"partitions": [entry], "version": 1}, "f") == {T0: (1, 2)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "f: there is no list of partitions"),
        ({"version": 1}, "f: there is no list of partitions"),
        ({"version": 2, "partitions": []}, "f: version 2 is unknown, known is 1"),
        ({"partitions": []}, "f: the list of partitions is empty"),
        ({"partitions": ["t"]}, 'f: "t" needs topic, partition and replicas'),
        ({"partitions": [{"topic": "t", "partition": 0}]}, "needs topic, partition and replicas"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}, "t-0 needs different replicas"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}, "t-0 needs different replicas"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2}, "t-0 is named twice"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/d"]}]},
            "moves to a chosen directory are not supported",
        ),
    ],
)
def test_bad_files_say_what_is_wrong(content: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_plan(content, "f")
    assert message in str(refused.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.json: No such file"):
        read_plan(str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match=r"bad\.json is not JSON"):
        read_plan(str(tmp_path / "bad.json"))


def test_what_is_even_stays() -> None:
    current = {T0: (1, 2), T1: (2, 3), T2: (3, 1)}
    assert plan_for_brokers(current, [1, 2, 3], {}) == current


def test_a_new_broker_takes_its_share_and_no_more_moves() -> None:
    current = {TopicPartition("t", index): (1, 2) if index % 2 else (2, 1) for index in range(6)}
    plan = plan_for_brokers(current, [1, 2, 3], {})
    assert Counter(broker for replicas in plan.values() for broker in replicas) == {1: 4, 2: 4, 3: 4}
    moved = sum(len(set(plan[partition]) - set(current[partition])) for partition in current)
    assert moved == 4
    leads = Counter(replicas[0] for replicas in plan.values())
    assert max(leads.values()) - min(leads.values()) <= 1


def test_replicas_leave_a_broker_that_is_not_named() -> None:
    plan = plan_for_brokers({T0: (1, 2), T1: (3, 1)}, [2, 3], {})
    assert {frozenset(replicas) for replicas in plan.values()} == {frozenset({2, 3})}


def test_replicas_go_to_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = plan_for_brokers({T0: (9, 8), T1: (9, 8)}, [1, 2, 3, 4], racks)
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in plan.values())


def test_too_few_brokers_are_refused() -> None:
    with pytest.raises(ConfigError, match="t-0 has 2 replicas, more than there are brokers"):
        plan_for_brokers({T0: (1, 2)}, [3], {})


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=20),
    st.lists(st.integers(1, 8), min_size=3, max_size=8, unique=True),
)
def test_every_plan_keeps_the_number_of_replicas_and_is_even(replicas: list[list[int]], brokers: list[int]) -> None:
    current = {TopicPartition("t", index): tuple(each) for index, each in enumerate(replicas)}
    plan = plan_for_brokers(current, brokers, {})
    assert plan.keys() == current.keys()
    for partition, chosen in plan.items():
        assert len(chosen) == len(set(chosen)) == len(current[partition])
        assert set(chosen) <= set(brokers)
    held = Counter(broker for chosen in plan.values() for broker in chosen)
    loads = [held[broker] for broker in brokers]
    assert max(loads) - min(loads) <= 1
