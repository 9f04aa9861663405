from __future__ import annotations

import pytest

from crabka.errors import ConfigError
from crabka.spark.lake.syncing.settings import SyncSettings


def test_a_date_is_a_column_of_its_own() -> None:
    assert SyncSettings().partition_column is None
    assert SyncSettings(partition_by="date").partition_column == "kafka_date"
    assert SyncSettings(partition_by="country").partition_column == "country"


def test_tasks_are_about_two_files() -> None:
    limits = SyncSettings(target_bytes=10, round_bytes=100, min_tasks=3).limits
    assert (limits.round_bytes, limits.task_bytes, limits.min_tasks) == (100, 20, 3)


@pytest.mark.parametrize("sizes", [{"target_bytes": 0}, {"round_bytes": 0}])
def test_sizes_are_positive(sizes: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        SyncSettings(**sizes)  # type: ignore[arg-type]
