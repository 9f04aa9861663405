"""`crabka up` turns its options into the settings of a lone node."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli.node import up
from crabka.config.server import ServerConfig


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """The settings of nodes that would have been started."""
    configs: list[ServerConfig] = []

    def run_node(config: ServerConfig, *, format_new: bool) -> int:
        assert format_new
        configs.append(config)
        return 0

    monkeypatch.setattr(up, "run_node", run_node)
    monkeypatch.setattr("crabka.cli.node.process.set_up_logging", lambda *_: None)
    return configs


def test_defaults_are_kafkas_port_and_a_directory_here(started: list[ServerConfig]) -> None:
    assert up.main([]) == 0
    (config,) = started
    assert [str(listener) for listener in config.broker_listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert config.log_dirs == ("./crabka-data",)
    assert config.offsets_topic_replication_factor == 1


def test_options_win_over_defaults(started: list[ServerConfig]) -> None:
    up.main(["--data-dir", "d", "--listen", "0.0.0.0:0", "--set", "num.partitions=3", "--set", "node.id=7"])
    (config,) = started
    assert (config.log_dirs, config.num_partitions, config.node_id) == (("d",), 3, 7)
    assert config.broker_listeners[0].host == "0.0.0.0"


def test_a_tier_is_switched_on_and_other_settings_still_win(started: list[ServerConfig]) -> None:
    up.main(["--tier", "s3://bucket/some/prefix?region=eu-1", "--set", "remote.log.manager.task.interval.ms=77"])
    (config,) = started
    assert config.remote_log_storage_system_enable
    assert config.remote_log_storage_manager_class_name == "s3"
    assert config.prefixed("rsm.config.") == {"bucket": "bucket", "prefix": "some/prefix", "region": "eu-1"}
    assert config.remote_log_manager_task_interval_ms == 77


def test_a_path_is_a_tier_wherever_the_node_runs(
    started: list[ServerConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    up.main(["--tier", "cold"])
    assert started[0].prefixed("rsm.config.") == {"dir": str(tmp_path / "cold")}


def test_without_a_tier_nothing_is_tiered(started: list[ServerConfig]) -> None:
    up.main([])
    assert not started[0].remote_log_storage_system_enable
