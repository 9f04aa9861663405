"""The tier of a cluster, and whether its storage can be opened. That of a running node is in the integration test."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli.doctor.checks.tier import TierFacts
from crabka.cli.doctor.finding import NotApplicableError
from crabka.cli.doctor.gathering.overview import Overview
from crabka.cli.doctor.gathering.tier import SilentProgress, _open, gather_tier
from crabka.clients.admin.admin_types import ConfigValue
from crabka.errors import ConfigError
from tests.unit.cli.doctor.conftest import Gather


def overview(**settings: str) -> Overview:
    configs = {
        name.replace("_", "."): ConfigValue(name, text, 4, False, False, 0, None, ()) for name, text in settings.items()
    }
    return Overview("c", (), frozenset(), {}, {1: configs}, ())


def test_a_cluster_without_a_tier_has_nothing_to_check(gathered: Gather[TierFacts]) -> None:
    with pytest.raises(NotApplicableError, match="no topic is tiered"):
        gathered(lambda cluster, found: gather_tier(cluster, found, None, None))


def test_an_address_that_is_not_published_has_to_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pass --tier URL"):
        _open(overview(), None)
    with pytest.raises(ConfigError, match="is no tier"):
        _open(overview(), f"file://{tmp_path}")


def test_a_published_directory_is_opened_where_it_is(tmp_path: Path) -> None:
    published = overview(remote_log_storage_manager_class_name="file", rsm_config_dir=str(tmp_path))
    with pytest.raises(ConfigError, match="is no tier"):
        _open(published, None)
    (tmp_path / "kafka-tiered-storage").mkdir()
    _open(published, None).close()


def test_a_silent_progress_passes_objects_on() -> None:
    progress = SilentProgress()
    progress.metadata(1, 2)
    progress.begin_contents(1)
    progress.contents(1)
    assert list(progress.objects([])) == []
