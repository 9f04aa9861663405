"""Directories of local clusters."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from crabka.cli.cluster.local_layout import NodeHome, choose_ports, create_homes, find_homes, open_homes
from crabka.config.presets import NodePorts
from crabka.config.properties import parse_properties
from crabka.errors import ConfigError


def test_ports_follow_the_base_brokers_first() -> None:
    assert choose_ports(2, 9092) == [NodePorts(1, 9092, 9094), NodePorts(2, 9093, 9095)]
    for bad in (0, 65_533):
        with pytest.raises(ConfigError, match=f"--base-port {bad}: there must be 4 ports"):
            choose_ports(2, bad)


def test_free_ports_are_different_and_can_be_bound() -> None:
    chosen = choose_ports(3, None)
    ports = [port for node in chosen for port in node[1:]]
    assert len(set(ports)) == 6
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_nodes_are_formatted_as_one_cluster_with_all_as_voters(tmp_path: Path) -> None:
    homes = open_homes(str(tmp_path / "c"), 2, 9092)
    metas = [parse_properties((home.data_dir / "meta.properties").read_text()) for home in homes]
    assert [meta["node.id"] for meta in metas] == ["1", "2"]
    assert metas[0]["cluster.id"] == metas[1]["cluster.id"]
    snapshots = [next((home.data_dir / "__cluster_metadata-0").glob("*.checkpoint")).read_bytes() for home in homes]
    assert all(b"CONTROLLER" in snapshot for snapshot in snapshots)
    assert len(snapshots[0]) == len(snapshots[1])
    config = homes[1].config()
    assert (config.node_id, config.log_dirs) == (2, (str(tmp_path / "c" / "node-2" / "data"),))


def test_a_directory_keeps_its_nodes(tmp_path: Path) -> None:
    made = open_homes(str(tmp_path), 2, 9092)
    (tmp_path / "notes").mkdir()
    before = made[0].properties_path.read_text()
    assert open_homes(str(tmp_path), None, None) == made == find_homes(str(tmp_path))
    assert made[0].properties_path.read_text() == before
    with pytest.raises(ConfigError, match="holds a cluster of 2 nodes, not of 3"):
        open_homes(str(tmp_path), 3, None)


def test_all_nodes_get_the_tier_and_keep_it(tmp_path: Path) -> None:
    storage = {"remote.log.storage.manager.class.name": "local", "rsm.config.dir": "/tier"}
    homes = open_homes(str(tmp_path), 2, 9092, storage=storage)
    for home in homes:
        assert home.config().remote_log_storage_system_enable
        assert home.properties()["rlmm.config.remote.log.metadata.topic.replication.factor"] == "2"
    assert open_homes(str(tmp_path), None, None, storage=storage) == open_homes(str(tmp_path), None, None)
    with pytest.raises(ConfigError, match="without that tier"):
        open_homes(str(tmp_path), None, None, storage=storage | {"rsm.config.dir": "/other"})


def test_an_unfinished_directory_is_refused(tmp_path: Path) -> None:
    homes = create_homes(str(tmp_path), choose_ports(1, 9092))
    (homes[0].data_dir / "meta.properties").unlink()
    with pytest.raises(ConfigError, match="is not formatted: remove"):
        open_homes(str(tmp_path), None, None)


def test_there_may_be_no_cluster(tmp_path: Path) -> None:
    assert find_homes(str(tmp_path / "none")) == []
    with pytest.raises(ConfigError, match="cannot read"):
        NodeHome(1, tmp_path / "none").config()
