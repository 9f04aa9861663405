from __future__ import annotations

import pickle

import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.planner_source import PlannerSource
from crabka.spark.lake.rows import READ_COLUMNS

CLUSTER = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def test_tasks_read_all_columns_and_only_what_is_committed() -> None:
    reader = pickle.loads(pickle.dumps(PlannerSource(CLUSTER).reader))  # noqa: S301 - as it goes to tasks
    assert set(reader.settings.columns) == set(READ_COLUMNS)
    assert reader.settings.options.read_committed
    assert reader.settings.options.include_headers


@pytest.mark.parametrize("name", ["isolation.level", "kafka.isolation.level", "Kafka.Isolation.Level"])
def test_what_is_not_committed_is_read_if_asked(name: str) -> None:
    reader = PlannerSource({**CLUSTER, name: "read_uncommitted"}).reader
    assert not reader.settings.options.read_committed


def test_a_wrong_option_is_told() -> None:
    with pytest.raises(ConfigError, match="tier"):
        _ = PlannerSource({**CLUSTER, "tier.url": "x"}).reader
