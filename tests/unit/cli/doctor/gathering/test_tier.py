"""The tier of a cluster, and whether its storage can be opened. That of a running node is in the integration test."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli.doctor.checks.tier import TierFacts
from crabka.cli.doctor.finding import NotApplicableError
from crabka.cli.doctor.gathering.tier import SilentProgress, _open, gather_tier
from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster
from crabka.errors import ConfigError
from tests.unit.cli.doctor.conftest import Gather


def test_a_cluster_without_a_tier_has_nothing_to_check(gathered: Gather[TierFacts]) -> None:
    with pytest.raises(NotApplicableError, match="no topic is tiered"):
        gathered(lambda cluster, found: gather_tier(cluster, found, None, None))


def test_an_address_that_is_not_published_has_to_be_given(gathered: Gather[None], tmp_path: Path) -> None:
    async def open_it(cluster: Cluster, url: str | None) -> None:
        (await _open(Admin(cluster), url)).close()

    with pytest.raises(ConfigError, match="pass --tier URL"):
        gathered(lambda cluster, _: open_it(cluster, None))
    with pytest.raises(ConfigError, match="is no tier"):
        gathered(lambda cluster, _: open_it(cluster, f"file://{tmp_path}"))
    (tmp_path / "kafka-tiered-storage").mkdir()
    gathered(lambda cluster, _: open_it(cluster, f"file://{tmp_path}"))


def test_a_silent_progress_passes_objects_on() -> None:
    progress = SilentProgress()
    progress.metadata(1, 2)
    progress.begin_contents(1)
    progress.contents(1)
    assert list(progress.objects([])) == []
