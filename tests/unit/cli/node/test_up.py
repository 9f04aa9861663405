"""`crabka up` turns its options into the settings of a lone node."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli.node import up
from crabka.config.server import ServerConfig
from crabka.runtime import own_address


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


@pytest.mark.parametrize(
    ("listen", "advertised"), [("0.0.0.0:9094", "here:9094"), ("[::]:9094", "here:9094"), (":0", "here:0")]
)
def test_all_addresses_are_advertised_by_a_name_with_a_warning(
    started: list[ServerConfig],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    listen: str,
    advertised: str,
) -> None:
    monkeypatch.setattr(own_address, "reachable_host", lambda _: "here")
    up.main(["--listen", listen])
    assert [str(each) for each in started[0].advertised_listeners] == [f"PLAINTEXT://{advertised}"]
    assert f"--listen {listen}: everyone on the network can read, write and delete here" in caplog.text


def test_an_advertised_address_of_the_user_wins(started: list[ServerConfig], caplog: pytest.LogCaptureFixture) -> None:
    up.main(["--listen", "0.0.0.0:9094", "--set", "advertised.listeners=PLAINTEXT://kafka.example:1"])
    assert [str(each) for each in started[0].advertised_listeners] == ["PLAINTEXT://kafka.example:1"]
    assert "everyone on the network" in caplog.text


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0", "localhost:0", "127.8.0.1:0"])
def test_a_node_for_this_machine_warns_of_nothing(
    started: list[ServerConfig], caplog: pytest.LogCaptureFixture, listen: str
) -> None:
    up.main(["--listen", listen])
    assert started[0].advertised_listeners == started[0].broker_listeners
    assert not caplog.records


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
